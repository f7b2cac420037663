package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestWorkingFilesAreReadAsTheirGoldenSays(t *testing.T) {
	t.Parallel()
	for name, data := range fixtures(t, "working_*.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse(name, data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".golden.json", string(got)+"\n")
		})
	}
}

func TestBustedFilesAreRefusedAsTheirGoldenSays(t *testing.T) {
	t.Parallel()
	for name, data := range fixtures(t, "busted_*.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse(name, data)
			var list *Error
			if c != nil || !errors.As(err, &list) {
				t.Fatalf("got %v, %v, want an *Error", c, err)
			}
			for _, p := range list.Problems {
				if p.File != name || p.Line < 1 || p.Column < 1 || p.Excerpt == "" {
					t.Errorf("no place in %q", p)
				}
			}
			// Fixtures write every secret as hunter2 or hunter3.
			if strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "ter2") {
				t.Error("the error shows a secret")
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".golden.txt", err.Error()+"\n")
		})
	}
}
