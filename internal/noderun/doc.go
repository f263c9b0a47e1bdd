// Package noderun runs real node processes and checking clients for the system tests.
//
// Only tests import it: those of internal/attackrun, internal/killrun, internal/clusterrun and
// internal/eventsrun, and those of the programs. They choose the faults and the checks. This package has
// the common parts:
//
//   - [Place] is the location of the data.
//   - [Fleet] restarts each [Node], and collects flaws in [Notes].
//   - [Client] and [Reader] check each answer.
//   - [LogView] is a log, with which a reader's [Sight] is compared.
//   - [Verify] runs the program's check of a bucket.
//
// Guarantees:
//
//  1. An answer that a node may not give in any state is an error that [Broken] reports.
//     Any other error may be due to a fault.
//  2. The chunks of a Reader have no gap, are in order and each once. A chunk received
//     again was equal.
//  3. A process of a Fleet that ends without a request, or prints something forbidden,
//     is noted.
//
// Everything is safe for concurrent use, except a LogView. One goroutine follows with a Reader; any
// number may read its state. A goroutine waits for each node; [Fleet.Close] waits for those
// goroutines.
package noderun
