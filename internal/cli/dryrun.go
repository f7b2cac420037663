package cli

import (
	"strconv"

	"redrive/internal/operator"
)

func groupCells(g *operator.Group) []string {
	return []string{strconv.Itoa(g.Operations), string(g.Kind), orDash(string(deref(g.Reason))), orDash(string(deref(g.Class))), orDash(g.Sums.String())}
}

var groupHeader = []string{"operations", "kind", "reason", "class", "sums"}

func (p *program) writeDryRun(would operator.DryRun) error {
	switch p.flags.output {
	case asJSON:
		return p.writeJSON(would)
	case asJSONL:
		return p.writeLine(would)
	case asName:
		for _, id := range would.Good {
			p.print("%s", id)
		}
		return nil
	case asCSV:
		g := grid{header: groupHeader}
		for _, group := range would.Groups {
			g.add(groupCells(group)...)
		}
		return tableCSV(p.stdout, g)
	}
	p.say("dry run: %d would be requeued, %d refused, %d not found; nothing was changed", would.Requeued, would.Refused, would.Missing)
	g := grid{header: groupHeader}
	for _, group := range would.Groups {
		g.add(groupCells(group)...)
	}
	p.table(g)
	if len(would.Refusals) > 0 {
		if len(g.rows) > 0 {
			p.print("")
		}
		g = grid{header: []string{"operations", "refused because", "such as"}}
		for _, r := range would.Refusals {
			g.add(strconv.Itoa(r.Operations), r.Why, r.Examples[0].String())
		}
		p.table(g)
	}
	return nil
}
