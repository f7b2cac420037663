// Package outage rehearses outages: the traffic of a shop against a gateway that
// misbehaves, with three clients side by side, so that people on call have seen
// what comes before it comes.
//
// [Run] gives each [Client] its own sandbox gateway with the same faults at the same
// instants and the same orders. The third is this system itself: a request path
// that counts its attempts in the shared budget and hands over what failed, real
// workers, and a real store. Time can run faster than the wall's: every span of the
// configuration, of the faults and of the customers' patience is divided by the
// same factor, so that what is compared stays comparable. [Scenario] says what does not
// run faster, and how the speeds are chosen.
//
// Who judges is the gateway: the sandbox's ledger of side effects, and the door in front
// of it, which writes down every call on arrival. A client's word is held against that. What
// the machine could not keep up with is a missed target, not a better figure.
//
// Against a sandbox of one's own ([Options.Against]) redrive is played alone: three clients
// at one gateway would each feel the others' load.
package outage
