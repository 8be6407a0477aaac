// Package githosttest has model Git hosts for tests, one per vendor, and the suite that every driver of package githost
// passes: against the models with faults, and against real hosts.
//
// A Host is one repository in memory. Its HTTP interface has the addresses, fields and refusals that the vendor
// documents, as far as package githost uses them.
package githosttest
