// Package operator does what a person asks of operations: requeue, cancel, discard,
// resolve and reconcile, one by one or as a bulk action, and tells how far a bulk
// action is. It reads no flags, asks no questions and prints nothing, so that every
// door to it (the program enqueue, the HTTP API) acts alike.
//
// An action goes in three steps, between which its caller may ask whether to go on:
//
//	o, err := operator.New(ctx, l, operator.Options{})
//	set, err := o.Matching(ctx, filter, operator.DeadStates, words.String()) // or o.Named
//	report, err := o.Requeue(ctx, set, plan, operator.Order{By: "ann", Note: "gateway is back"})
//
// The set is fixed once. The action is then written to the audit and as a batch,
// before anything is changed: what cannot be recorded is not done. An error means that
// no operation was changed; what an action ended early with, after it began, is
// [Report.Failed], beside the results it had by then. The same action again goes on
// with the rest, since what was done no longer is in a state that it chooses.
//
// What is wrong in itself is an [InvalidError], which names the field and can be told
// in the words of whoever gave it.
package operator
