package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// wireFault is a fault as JSON shows it; read it with [Fault.UnmarshalJSON],
// which is stricter than the struct.
type wireFault struct {
	Mode       Mode     `json:"mode"`
	Latency    string   `json:"latency,omitempty"`
	Share      *float64 `json:"share,omitempty"`
	For        string   `json:"for,omitempty"`
	RetryAfter *string  `json:"retry_after,omitempty"`
	PerSecond  float64  `json:"per_second,omitempty"`
	ReadLag    string   `json:"read_lag,omitempty"`
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := wireFault{Mode: f.Mode, Share: f.Share, RetryAfter: f.RetryAfter, PerSecond: f.PerSecond}
	if f.Latency != 0 {
		w.Latency = f.Latency.String()
	}
	if f.For != 0 {
		w.For = f.For.String()
	}
	if f.ReadLag != 0 {
		w.ReadLag = f.ReadLag.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads one JSON object strictly: an unknown or repeated field, a
// value of the wrong type, a bad duration, a missing mode and text after the
// object are errors. Ranges are checked by [Sandbox.SetFault].
func (f *Fault) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New(`want a JSON object such as {"mode":"slow"}`)
	}
	var read Fault
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		name, _ := t.(string) // the decoder lets only strings stand here
		if seen[name] {
			return fmt.Errorf("field %q is given more than once", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("field %q: not JSON: %w", name, err)
		}
		if err := read.set(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("text after the JSON object")
	}
	if !seen["mode"] {
		return errors.New("mode is missing")
	}
	*f = read
	return nil
}

// set reads one field.
func (f *Fault) set(name string, value json.RawMessage) error {
	var err error
	switch name {
	case "mode":
		var s string
		if s, err = readString(value, `"slow"`); err == nil {
			f.Mode, err = ParseMode(s)
		}
	case "latency":
		f.Latency, err = readDuration(value)
	case "for":
		f.For, err = readDuration(value)
	case "read_lag":
		f.ReadLag, err = readDuration(value)
	case "share":
		var n float64
		n, err = readNumber(value)
		f.Share = &n
	case "per_second":
		if f.PerSecond, err = readNumber(value); err == nil && f.PerSecond == 0 {
			err = errors.New("want more than 0") // 0 would become the default
		}
	case "retry_after":
		var s string
		s, err = readString(value, `"5"`)
		f.RetryAfter = &s
	default:
		return fmt.Errorf("unknown field %q: want mode, latency, share, for, retry_after, per_second or read_lag", name)
	}
	if err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	return nil
}

func readString(value json.RawMessage, example string) (string, error) {
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", fmt.Errorf("want a string such as %s, got %.60s", example, value)
	}
	return *s, nil
}

func readDuration(value json.RawMessage) (time.Duration, error) {
	const example = `"2.4s"`
	s, err := readString(value, example)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("want a duration such as %s, got %.60q", example, s)
	}
	return d, nil
}

func readNumber(value json.RawMessage) (float64, error) {
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, fmt.Errorf("want a number such as 0.3, got %.60s", value)
	}
	return n, nil
}
