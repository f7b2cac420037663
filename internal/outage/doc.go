// Package outage rehearses outages: the traffic of a shop against a gateway that
// misbehaves, with three clients side by side, so that people on call have seen
// what comes before it comes.
//
// [Run] gives each [Client] its own sandbox gateway with the same faults at the same
// instants and the same orders. The third is this system itself: a request path
// that counts its attempts in the shared budget and hands over what failed, real
// workers, and a real store. Time can run faster than the wall's: every span of the
// configuration, of the faults and of the customers' patience is divided by the
// same factor, so that what is compared stays comparable.
package outage
