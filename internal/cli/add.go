package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"redrive/internal/jobs"
	"redrive/internal/remote"
	"redrive/internal/wire"
)

// addFlags are the flags of add that are not taken over as they are.
type addFlags struct {
	body, attempted, attemptedClass string
	attempts                        int
	attemptedID, firstSentAt        string
	params, headers                 []string
}

func (p *program) addCommand() *cobra.Command {
	f, sub := &addFlags{}, &jobs.Submission{}
	cmd := &cobra.Command{
		Use:   "add KIND/KEY [--body JSON|@FILE|-]",
		Short: "Submit one operation",
		Long: "add submits one operation. What was never sent is due at once; what was sent already and failed (--attempted) waits a\n" +
			"backoff first. Repeating the same add is safe: it is a duplicate. The same key with another request is a conflict (exit 5).",
		Example: `  enqueue add charge/order-1001 --body '{"amount":4200,"currency":"GBP"}' --deadline 2h
  enqueue add charge/order-1002 --body @charge.json --attempted unknown --attempted-class timeout \
      --idempotency-key order-1002-charge --first-sent-at 2026-11-30T09:14:00Z
  enqueue add charge/order-1001-2 --body @charge.json --new-attempt-of charge/order-1001`,
		Args: cobra.ExactArgs(1),
		RunE: p.command(limited, []string{asTable, asJSON, asJSONL, asName}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
			id, err := jobs.ParseID(args[0])
			if err != nil {
				return &failure{exitUsage, err}
			}
			sub.Kind, sub.Key = id.Kind, id.Key
			if cmd.Flags().Changed("new-attempt-of") && sub.NewAttemptOf == "" {
				return usagef("--new-attempt-of: want KIND/KEY")
			}
			// The environment's is a convention: what is no trace context there is none, not a mistake of ours.
			if around := p.getenv("TRACEPARENT"); sub.Traceparent == "" && jobs.CheckTraceparent(around) == nil {
				sub.Traceparent = around
			}
			if err := f.fill(cmd, sub); err != nil {
				return err
			}
			return p.add(ctx, cmd, f, sub)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.body, "body", "", "what is sent: `JSON`, @FILE, or - for stdin; anything else where the content type is not JSON")
	fs.StringVar(&sub.ContentType, "content-type", "", "of the body (default: the kind's)")
	fs.StringVar(&sub.IdempotencyKey, "idempotency-key", "", "key under which the dependency recognises it (default KIND:KEY)")
	fs.StringVar(&sub.Credential, "credential", "", "name of the credential to send it under")
	fs.StringVar(&sub.Deadline, "deadline", "", "no send after it: a `span` such as 2h, or RFC 3339 (default: the kind's)")
	fs.StringVar(&sub.NotBefore, "not-before", "", "no send before this `instant` (RFC 3339)")
	fs.StringVar(&sub.CorrelationID, "correlation-id", "", "found again in logs and at the dependency")
	fs.StringVar(&sub.Traceparent, "traceparent", "", "W3C trace `context` that its attempts belong to (default: TRACEPARENT of the environment)")
	fs.StringVar(&f.attempted, "attempted", "", "it was sent already; the worst `outcome`: not_sent, refused or unknown")
	fs.IntVar(&f.attempts, "attempted-times", 1, "how often it was sent")
	fs.StringVar(&f.firstSentAt, "first-sent-at", "", "`instant` of the first send (RFC 3339)")
	fs.StringVar(&f.attemptedClass, "attempted-class", "", "response `class` that it met (default other)")
	fs.StringVar(&f.attemptedID, "attempted-id", "", "`id` of the report, so that repeating it adds nothing")
	fs.StringArrayVar(&f.params, "param", nil, "`name=value` for the kind's path; repeat for more")
	fs.StringArrayVar(&f.headers, "header", nil, "`'Name: value'` to send along; repeat for more")
	fs.StringVar(&sub.NewAttemptOf, "new-attempt-of", "", "try the payment of `KIND/KEY` again, which ended without effect; counted and bounded (operations.KIND.new_attempts)")
	completeWords(cmd, "attempted", []jobs.Outcome{jobs.OutcomeNotSent, jobs.OutcomeRefused, jobs.OutcomeUnknown})
	completeWords(cmd, "attempted-class", jobs.Classes)
	return cmd
}

// fill puts what was given as text into the submission.
func (f *addFlags) fill(cmd *cobra.Command, sub *jobs.Submission) error {
	for _, text := range f.params {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return usagef("--param: want name=value")
		}
		if _, twice := sub.Params[name]; twice {
			return usagef("--param %s: given twice", name)
		}
		if sub.Params == nil {
			sub.Params = map[string]string{}
		}
		sub.Params[name] = value
	}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return usagef("--header: want 'Name: value'")
		}
		if _, twice := sub.Headers[name]; twice {
			return usagef("--header %s: given twice", name)
		}
		if sub.Headers == nil {
			sub.Headers = map[string]string{}
		}
		sub.Headers[name] = strings.TrimSpace(value)
	}
	if f.attempted == "" {
		for _, name := range []string{"attempted-times", "first-sent-at", "attempted-class", "attempted-id"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s says more about --attempted, which is missing", name)
			}
		}
		return nil
	}
	if f.attempts < 1 {
		return usagef("--attempted-times %d: must be at least 1", f.attempts)
	}
	sub.Attempted = &jobs.Attempted{ID: f.attemptedID, Outcome: jobs.Outcome(f.attempted), Attempts: f.attempts,
		FirstSentAt: f.firstSentAt, Class: jobs.Class(f.attemptedClass)}
	return nil
}

func (p *program) add(ctx context.Context, cmd *cobra.Command, f *addFlags, sub *jobs.Submission) error {
	var body []byte
	given := cmd.Flags().Changed("body")
	if given {
		var err error
		if body, err = p.readBody(ctx, f.body); err != nil {
			return err
		}
	}
	b, err := p.open(ctx, writes)
	if err != nil {
		return err
	}
	defer b.close()
	kind, err := b.submittable(ctx, sub.Kind)
	if err != nil {
		return err
	}
	if given {
		setBody(sub, body, kind)
	}
	tracer, stopTracing := p.tracing(ctx)
	defer stopTracing()
	span := beginSubmit(tracer, sub, kind.Dependency)
	receipt, err := b.submit(ctx, sub)
	span.end(receipt, err)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		if written := p.writeReceipt(refusal(sub, refused)); written != nil {
			return written
		}
		return &failure{exitUsage, fmt.Errorf("%s refused: %w", sub.ID(), refused)}
	case remote.Is(err, remote.RedisRefuses):
		return &noted{err, "add the same again later"} // it says that nothing was written
	case err != nil && unchanged(err) && codeOf(err) == exitAgain:
		return &noted{err, "nothing was written: add the same again later"}
	case err != nil && unchanged(err):
		return &noted{err, "nothing was written"}
	case err != nil:
		return &noted{err, "it may have been accepted: repeating the same add is safe"}
	}
	return p.answer(receipt)
}

// answer shows a receipt and ends accordingly.
func (p *program) answer(r jobs.Receipt) error {
	if err := p.writeReceipt(r); err != nil {
		return err
	}
	for _, w := range r.Warnings {
		p.say("warning: %s", w)
	}
	switch {
	case r.Answer == jobs.Conflict:
		return &failure{exitConflict, errors.New(receiptText(r))}
	case r.Answer == jobs.Unsure:
		return &failure{exitAgain, errors.New("written, but not yet on the replicas asked for: add the same again")}
	case r.Later:
		return &failure{exitAgain, fmt.Errorf("%s %s", r.Operation, receiptText(r))}
	case r.Barred:
		return &failure{exitConflict, fmt.Errorf("%s %s", r.Operation, receiptText(r))}
	case r.Answer == jobs.Refused:
		return &failure{exitUsage, fmt.Errorf("%s %s", r.Operation, receiptText(r))}
	}
	return nil
}

func (p *program) writeReceipt(r jobs.Receipt) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(r)
	case asJSONL:
		return p.writeLine(r)
	case asName:
		if r.Answer != jobs.Refused && r.Answer != jobs.Conflict {
			p.print("%s", r.Operation)
		}
	default:
		g := grid{header: []string{"answer", "operation", "state", "applied", "next", "merged"}}
		merged := "-"
		if r.Merged {
			merged = "yes"
		}
		g.add(string(r.Answer), r.Operation.String(), orDash(string(r.State)), string(r.Applied), instant(r.NextAt), merged)
		p.table(g)
	}
	return nil
}

// readBody reads the body from where the flag says: itself, @FILE, or stdin.
func (p *program) readBody(ctx context.Context, flag string) ([]byte, error) {
	path, named := strings.CutPrefix(flag, "@")
	if !named && flag != "-" {
		return []byte(flag), nil
	}
	if named && path == "-" {
		path = "./-" // a file of that name
	}
	body, err := p.readInput(ctx, path, maxLineBytes+1)
	if err != nil {
		return nil, inputError(ctx, "--body", err)
	}
	return body, nil
}

// setBody hands the body in as what the content type says it is. White space around
// a JSON text, such as the end of line of a file, is not part of it.
func setBody(sub *jobs.Submission, body []byte, kind wire.Kind) {
	contentType := kind.ContentType
	if sub.ContentType != "" {
		contentType = sub.ContentType
	}
	text := string(body)
	switch {
	case isJSON(contentType) || contentType == "" && json.Valid(body):
		sub.Body = bytes.TrimSpace(body)
	case utf8.Valid(body):
		sub.BodyText = &text
	default:
		encoded := base64.StdEncoding.EncodeToString(body)
		sub.BodyBase64 = &encoded
	}
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
