//go:build !services

package broker_test

// sharedStores are the databases that need a server: none without the build tag services.
var sharedStores map[string]opener
