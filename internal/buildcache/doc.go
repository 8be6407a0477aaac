// Package buildcache keeps files of build steps for later builds: what a step puts under a key, once it has succeeded, the steps
// of later builds get back. The first one that stores a key wins. When the store is full, what was used longest ago goes.
package buildcache
