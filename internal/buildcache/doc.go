// Package buildcache keeps files of build steps for later builds: the files that a step puts under a key, once it has
// succeeded, the steps of later builds get back. The first one that stores a key wins. When the store is full, the
// entries that were used longest ago go.
package buildcache
