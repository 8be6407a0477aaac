// Package results is what a build leaves on disk, while it runs and afterwards:
//
//	build.json                        the plan, and what it was made from
//	steps/N/output.log                entries, one a line; the log id is the line's number
//	steps/N/status.json               every status the step had
//	steps/N/test-results.json         what its files of test results report
//	steps/N/artifacts.json            what it yielded
//	steps/N/artifacts/ID_NAME         the bytes
//	workspace.tar.zst                 the workspace, if it was packed
//	worker.json                       where the worker serves all this, while it does
//	lock                              held while the worker lives
//	reserve                           1 MiB that the last statuses get when the disk is full
//	cancel                            another process has asked for the end of the build
//	acknowledged                      a reader has taken everything
//
// Step 0 is the build itself. The files are the only truth; readers stop at the
// last newline of a log, so a torn tail is invisible. A step's last status holds
// a trailer that its log must agree with, and step 0's the final marker: with it
// any reader can verify that everything is there. Without it the build has not ended,
// and if no process holds the lock it never will.
package results
