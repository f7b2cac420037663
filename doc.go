// Package redrive is for services whose charges, refunds or payouts can fail in the
// middle of a request: it makes the one attempt that belongs into the request path, and
// hands over what did not come to an end, so that it is redelivered later, never twice,
// never past its deadline, and never lost from sight. The redelivering is done by
// cmd/worker; both meet in one Redis.
//
//	client, err := redrive.New(ctx, redrive.Options{RedisURL: "redis://127.0.0.1:6379/0", ConfigFile: "redrive.yaml"})
//	...
//	reply, err := client.Do(ctx, redrive.Operation{Kind: "charge", Key: "order-1001", Body: body}, nil)
//	var deferred *redrive.Deferred
//	var declined *redrive.Permanent
//	switch {
//	case err == nil:
//		// charged: reply.Body is the gateway's answer
//	case errors.As(err, &deferred):
//		// under way: answer 202, and tell the customer later
//	case errors.As(err, &declined):
//		// refused for good: answer 402
//	default:
//		// nothing was sent and nothing is kept, unless it is a *redrive.HandoverError
//	}
//
// # What is certain
//
// [Client.Do] writes the operation before it is sent ([Durable], the default). A process
// that dies at any instant leaves one of three things: nothing, an operation that was
// never sent, or one of unknown outcome, which a worker takes up when its claim's lease is
// over: it asks the gateway where the kind has an inquiry, sends again under the same
// idempotency key where the kind is keyed and the key is still known, and else leaves it to
// a person. [Light] spares the two round trips and gives this up; so does, for the classes
// [Natural] and [Keyed], a ledger that does not answer, and the log says so.
//
// # What else there is
//
// [Client.Submit] hands over what somebody else sent, or nobody yet. [Client.Wait] and
// [Client.Events] tell how it ended. [Client.Call] is for reads, and retries at once under
// the same retry budget. [Client.Transport] counts what the service sends by itself.
package redrive
