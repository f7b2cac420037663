package config

import (
	"maps"
	"slices"
	"time"

	"redrive/internal/jobs"
)

// KindSpecs returns what a worker publishes of its kinds and what enqueue binds
// from a file, sorted by kind. No secret is in it: of credentials only the names,
// [jobs.DefaultCredential] always among them.
//
// BaseURL is "" while base_url holds a ${...} that [Config.ResolveSecrets] has not
// looked up, as in enqueue: the target of such a kind is what the workers published.
func (c *Config) KindSpecs() []jobs.KindSpec {
	specs := make([]jobs.KindSpec, 0, len(c.Kinds))
	for _, name := range slices.Sorted(maps.Keys(c.Kinds)) {
		specs = append(specs, c.kindSpec(c.Kinds[name]))
	}
	return specs
}

func (c *Config) kindSpec(k *Kind) jobs.KindSpec {
	d := c.Dependencies[k.Dependency]
	s := jobs.KindSpec{
		Kind:          k.Name,
		Dependency:    k.Dependency,
		Method:        k.Request.Method,
		Path:          k.Request.Path,
		ContentType:   k.Request.ContentType,
		Idempotency:   k.Idempotency,
		DeadlineMS:    ms(k.Deadline),
		MaxAttempts:   k.MaxAttempts,
		TimeoutMS:     ms(d.Timeout),
		MinResponseMS: ms(d.MinResponse),
		MaxBacklog:    d.MaxBacklog,
		Columns:       maps.Clone(k.Columns),
		Credentials:   credentialNames(d),
		WaitReplicas:  c.Redis.WaitReplicas,
		Retention: jobs.Retention{
			SucceededMS: ms(c.Retention.Succeeded),
			CancelledMS: ms(c.Retention.Cancelled),
			DeadMS:      ms(c.Retention.Dead),
			KeysMS:      ms(c.Retention.Keys),
			AuditMS:     ms(c.Retention.Audit),
		},
		NewAttempts:               k.NewAttempts.spec(),
		BackoffBaseMS:             ms(k.Backoff.Base),
		BackoffCapMS:              ms(k.Backoff.Cap),
		BudgetRatioMilli:          d.Budget.RatioMilli,
		BudgetCap:                 d.Budget.Cap,
		BudgetFloorMilliPerSecond: d.Budget.FloorMilliPerSecond,
	}
	if !hasRefs(d.BaseURL) {
		s.BaseURL = d.BaseURL
	}
	if key := k.IdempotencyKey; key.Header != "" {
		s.KeyHeader, s.KeyWindowMS, s.KeyMaxLength = key.Header, ms(key.Window), key.MaxLength
	}
	if q := k.Inquiry; q != nil {
		params, _ := q.Needs()
		s.Inquiry = &jobs.InquirySpec{SettleMS: ms(q.Settle), GiveUpAfterMS: ms(q.GiveUpAfter), Params: params}
	}
	if void := k.VoidLate; void != nil {
		s.Void = &jobs.VoidSpec{Kind: void.Kind, Params: maps.Clone(void.Params)}
	}
	return s
}

func credentialNames(d *Dependency) []string {
	names := slices.Collect(maps.Keys(d.Credentials))
	if !slices.Contains(names, jobs.DefaultCredential) {
		names = append(names, jobs.DefaultCredential)
	}
	slices.Sort(names)
	return names
}

func ms(d time.Duration) int64 { return d.Milliseconds() }
