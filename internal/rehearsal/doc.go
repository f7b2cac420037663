// Package rehearsal plays a misbehaving gateway against the whole system and
// judges what came of it from the gateway's side.
//
// [Run] puts everything into one process: an embedded store (a real redis-server
// as a child where there is one, else miniredis in memory), the sandbox gateway
// behind a real socket, workers, and a request path that submits operations as a
// shop would: most were never attempted, some timed out on the request path's own
// call, some were refused there. Then the gateway misbehaves as asked, heals, and
// everything runs until each operation has ended.
//
// The judge believes no counter of the system under test. It compares three
// accounts:
//
//   - the orders: what was handed over;
//   - the gateway's: the sandbox's ledger of side effects, and the door in front
//     of it, which writes down every request on arrival, also those that a fault
//     resets before they are read, and those that only inquire;
//   - the system's word: the state in which each operation ended.
//
// A promise (DESIGN: P1 to P5) is kept or broken by the gateway's account alone;
// the system's word is only held against it.
package rehearsal
