package outage

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the report as a section of a manual: a heading of the third level, the tables,
// and those figures for which imagePath knows where they are. "" leaves one out.
func (r *Report) WriteMarkdown(w io.Writer, imagePath func(name string) string) error {
	figures, err := r.Figures()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", plainText(r.Scenario), plainText(r.Text))
	fmt.Fprintf(&b, "%s %s. Gateway: %s. Store: %s. Course: %s.\n\n", r.played(), r.Date.UTC().Format("2006-01-02"), plainText(r.Gateway), plainText(r.Store), plainText(r.course()))

	head, rule := []string{""}, "|---|"
	for _, a := range r.Clients {
		head, rule = append(head, string(a.Client)), rule+"--:|"
	}
	tableLine(&b, head)
	b.WriteString(rule + "\n")
	for _, m := range measures {
		row := []string{m.name}
		for _, a := range r.Clients {
			row = append(row, m.text(m.value(a)))
		}
		tableLine(&b, row)
	}
	if len(r.Targets) > 0 {
		b.WriteString("\n")
		tableLine(&b, []string{"target", "want", "got", ""})
		b.WriteString("|---|---|---|---|\n")
		for _, t := range r.Targets {
			tableLine(&b, []string{t.Name, t.Want, t.Got, t.verdict()})
		}
	}
	if len(r.Alerts) > 0 {
		b.WriteString("\n")
		tableLine(&b, []string{"alert", "when", "rule"})
		b.WriteString("|---|---|---|\n")
		for _, a := range r.Alerts {
			tableLine(&b, []string{a.Name, r.when(a), a.Rule})
		}
	}
	for _, f := range figures {
		if path := imagePath(f.Name); path != "" {
			fmt.Fprintf(&b, "\n![%s: %s](%s)\n", f.Title, f.Caption, path)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func tableLine(b *strings.Builder, cells []string) {
	for _, c := range cells {
		b.WriteString("| " + plainText(c) + " ")
	}
	b.WriteString("|\n")
}

// plainText keeps words from being read as markup of the manual or as HTML in it.
func plainText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "\\`", "*", `\*`, "[", `\[`, "\r", " ", "\n", " ").Replace(s)
}
