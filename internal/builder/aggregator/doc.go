// Package aggregator copies the records of builds' workers into the database, and their artifacts into the blob
// store.
//
// Each worker is followed by one goroutine, the follower, which reads from the store where the results continue,
// opens the three streams of the worker API there, and has a writer store what they bring. The aggregator has no
// state that a successor needs: every part of Builds.Ingest compares with the stored data. So it may be killed
// anywhere, and several may follow the same worker.
//
// # How much is in memory
//
// Data that was received and is not stored yet takes up to 4 MiB for each worker and 64 MiB in all. Then the streams
// are not read, flow control stops the worker's sender, and the worker's disk keeps the rest. The transport buffers
// up to 256 KiB for each stream beside that.
//
// # The end of a build
//
// The final marker is held back until the streams have ended and everything else is stored. Then the store compares
// every log with its trailer and ends the build, and the worker gets the final acknowledgement, which lets it
// go. A worker that is listed after that gets it again.
//
// # Faults
//
// Any error drops unstored data, and the follower begins again at the store's positions after a delay of 0.2 s, which
// doubles to 30 s. It ends with the final acknowledgement, or when the worker is not listed any more.
package aggregator
