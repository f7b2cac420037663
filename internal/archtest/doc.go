// Package archtest holds the rules of the house as tests: which package may import
// which and why, what pure packages must not touch, and how files and package
// comments look. It has no code of its own and reads the sources of the module.
//
// A ban without a reason is soon worked around, so each one carries the reason,
// which is printed with the violation.
package archtest
