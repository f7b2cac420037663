// Package app is the program worker: it reads flags, environment and file, builds
// the parts in their order, takes them down in the opposite one, and says in one
// clear line what is in the way. [Run] is the whole program, so that tests can run
// it in their own process.
//
// Data goes to standard output, words to standard error. Exit codes: 0 done, 1 an
// error or a broken promise, 2 wrong usage.
package app
