package ledger

import (
	"strings"
	"testing"

	"redrive/internal/budget"
	"redrive/internal/dedupe"
	"redrive/internal/luascript"
)

// A script carries what it needs of the libraries: what none carries is needed by nobody.
func TestEveryFunctionOfALibraryIsNeededByAScript(t *testing.T) {
	t.Parallel()
	for _, lib := range []luascript.Library{luascript.Base, recordLibrary, askLibrary, settleLibrary, chainLibrary, heldLibrary, rollbackLibrary,
		budget.Library, dedupe.Identity, dedupe.Claim} {
		functions := lib.Functions()
		if len(functions) == 0 {
			t.Errorf("library %s has no functions", lib.Name)
		}
	functions:
		for _, name := range functions {
			for _, s := range Scripts {
				if strings.Contains(s.Source(), "function "+name+"(") {
					continue functions
				}
			}
			t.Errorf("library %s: no script needs %s", lib.Name, name)
		}
	}
}
