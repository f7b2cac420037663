package jobs

// Operation is an operation as list, show, the dead-letter commands and the API
// show it. The JSON is only ever extended; what is absent is null.
type Operation struct {
	Kind       Kind       `json:"kind"`
	Key        Key        `json:"key"`
	Dependency Dependency `json:"dependency"`
	State      State      `json:"state"`
	Reason     *Reason    `json:"reason"`
	Applied    Applied    `json:"applied"`
	Sends      int        `json:"sends"`
	// MaxAttempts is what the kind's configuration and granted requeues allow; 0
	// where no configuration of the kind is known.
	MaxAttempts int `json:"max_attempts"`
	Inquiries   int `json:"inquiries"`

	CreatedAt   *Instant `json:"created_at"`
	NotBefore   *Instant `json:"not_before"`
	NextAt      *Instant `json:"next_at"`
	DeadlineAt  *Instant `json:"deadline_at"`
	FirstSentAt *Instant `json:"first_sent_at"`
	EndedAt     *Instant `json:"ended_at"`
	EnteredAt   *Instant `json:"entered_at"` // its present state: what lists are ordered and filtered by

	Idempotency    Idempotency `json:"idempotency"`
	IdempotencyKey string      `json:"idempotency_key"`
	KeySafeUntil   *Instant    `json:"key_safe_until"`
	Credential     string      `json:"credential"`
	CorrelationID  *string     `json:"correlation_id"`
	Traceparent    *string     `json:"traceparent"` // of the trace in which it was submitted

	Columns map[string]string `json:"columns"`
	Result  map[string]string `json:"result"`
	Last    *LastAttempt      `json:"last"`
	Batch   *string           `json:"batch"`
	Flags   []Flag            `json:"flags"`
	Intent  *string           `json:"intent"` // where it goes once its outcome is settled as not applied

	NewAttemptOf *ID    `json:"new_attempt_of"` // the operation whose payment it tries again, as it was submitted
	Again        *Again `json:"again"`          // what a decline said of trying again

	// SubmittedBy is the service or person whose submission made it; null where that is not
	// known: an older version submitted it, or it was written again after Redis had lost it.
	SubmittedBy *string `json:"submitted_by"`

	Timeline []Event `json:"timeline,omitempty"` // show only
}

// ID returns the operation's name.
func (o *Operation) ID() ID { return ID{Kind: o.Kind, Key: o.Key} }

// LastAttempt is what the last attempt met.
type LastAttempt struct {
	Class  Class    `json:"class"`
	Status *int     `json:"status"`
	Error  *string  `json:"error"`
	At     *Instant `json:"at"` // when it ended
}

// Event is one line of an operation's timeline.
type Event struct {
	At         *Instant `json:"at"`
	Event      string   `json:"event"` // submitted, attempt, late_result, dead, requeued, …
	N          int      `json:"n,omitempty"`
	By         string   `json:"by,omitempty"` // worker, request_path, a service or a person
	Outcome    Outcome  `json:"outcome,omitempty"`
	Class      Class    `json:"class,omitempty"`
	Status     int      `json:"status,omitempty"`
	DurationMS *int64   `json:"duration_ms"`
	Verdict    Verdict  `json:"verdict,omitempty"`
	DelayMS    *int64   `json:"delay_ms"`
	Note       *string  `json:"note"`
}

// Request is what is sent on every attempt of an operation: fixed at submission.
type Request struct {
	Method      string            `json:"method"`
	Path        string            `json:"path"` // resolved and escaped; begins with a slash
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Params      map[string]string `json:"params,omitempty"`
	Body        []byte            `json:"-"` // stored beside the rest, byte for byte

	IdempotencyKey string `json:"-"`
	CorrelationID  string `json:"-"`
	Credential     string `json:"-"`
	Traceparent    string `json:"-"` // W3C trace context of its submission; "": none
}

// KindSpec is what a worker publishes of a kind, without secrets, so that
// a shell that has neither the file nor the gateway's secrets can submit to it.
type KindSpec struct {
	Kind          Kind              `json:"kind"`
	Dependency    Dependency        `json:"dependency"`
	Method        string            `json:"method"`
	Path          string            `json:"path"` // with {key} and {params.NAME}
	ContentType   string            `json:"content_type"`
	BaseURL       string            `json:"base_url"` // without userinfo
	Idempotency   Idempotency       `json:"idempotency"`
	KeyHeader     string            `json:"key_header,omitempty"`
	KeyWindowMS   int64             `json:"key_window_ms,omitempty"`
	KeyMaxLength  int               `json:"key_max_length,omitempty"`
	DeadlineMS    int64             `json:"deadline_ms"`
	MaxAttempts   int               `json:"max_attempts"`
	TimeoutMS     int64             `json:"timeout_ms"`
	MinResponseMS int64             `json:"min_response_ms"`
	MaxBacklog    int64             `json:"max_backlog"`
	Columns       map[string]string `json:"columns,omitempty"` // name -> RFC 6901 pointer into the body
	Credentials   []string          `json:"credentials"`       // names only
	Retention     Retention         `json:"retention"`
	WaitReplicas  int               `json:"wait_replicas,omitempty"` // that have an operation before it counts as accepted
	NewAttempts   NewAttempts       `json:"new_attempts,omitzero"`   // zero: published by a worker that did not know of them; see [KindSpec.NewAttemptTerms]

	Inquiry *InquirySpec `json:"inquiry,omitempty"` // nil: nobody can be asked what became of one
	Void    *VoidSpec    `json:"void,omitempty"`    // nil: a late success is kept

	BackoffBaseMS int64 `json:"backoff_base_ms"` // bounds the wait before the first retry of what the request path sent
	BackoffCapMS  int64 `json:"backoff_cap_ms"`

	// The dependency's budget, which a send that the request path reports fills.
	BudgetRatioMilli          int64 `json:"budget_ratio_milli"`
	BudgetCap                 int64 `json:"budget_cap"`
	BudgetFloorMilliPerSecond int64 `json:"budget_floor_milli_per_second"`
}

// InquirySpec is what every program must know of a kind's inquiry.
type InquirySpec struct {
	SettleMS      int64 `json:"settle_ms"`        // from the last unknown attempt's end and lease end until "not found" proves anything
	GiveUpAfterMS int64 `json:"give_up_after_ms"` // from entering unresolved until a person must look

	Params []string `json:"params,omitempty"` // names of the params that its path uses
}

// VoidSpec says how a success that came too late is undone: an operation of another
// kind, under a key that is made of this one's name.
type VoidSpec struct {
	Kind   Kind              `json:"kind"`
	Params map[string]string `json:"params,omitempty"` // name -> "key", "params.NAME" or "result.NAME" of the operation
}

// Retention is how long ended operations are kept, in milliseconds; 0 means for ever.
type Retention struct {
	SucceededMS int64 `json:"succeeded_ms"`
	CancelledMS int64 `json:"cancelled_ms"`
	DeadMS      int64 `json:"dead_ms"`
	KeysMS      int64 `json:"keys_ms"`
	AuditMS     int64 `json:"audit_ms"`
}
