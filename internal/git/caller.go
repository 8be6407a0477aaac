package git

import "os"

// LeaveCaller takes away from this process, and from all that it starts, the variables by which a git that has started it, as for a
// hook or rebase --exec, names its repository: the folders that are asked about may belong to others.
func LeaveCaller() {
	for _, name := range callerVariables() {
		_ = os.Unsetenv(name) // it fails only for names that no variable can have
	}
}

// callerVariables returns the output of git rev-parse --local-env-vars, of all versions. The two by which a person
// gives configuration stay, as they do when git starts itself in a submodule: safe.directory is given so in
// containers.
func callerVariables() []string {
	return []string{
		"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
		"GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE",
		"GIT_SHALLOW_FILE", "GIT_WORK_TREE",
	}
}
