// Package wire is the JSON that every door to the ledger speaks: submissions are read
// strictly, with the place of what is wrong, and gates are shown in people's units.
//
// It decides nothing and reads nothing by itself: texts and what the ledger answered
// are handed in.
package wire
