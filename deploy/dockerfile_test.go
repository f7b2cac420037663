package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile, such as COPY with all that follows it.
type instruction struct{ name, rest string }

// stage is what stands between one FROM and the next.
type stage struct {
	base, name   string
	instructions []instruction
}

func (s stage) all(name string) []string {
	var found []string
	for _, i := range s.instructions {
		if i.name == name {
			found = append(found, i.rest)
		}
	}
	return found
}

func readDockerfile(t *testing.T) []stage {
	t.Helper()
	content, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := parseDockerfile(string(content))
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// parseDockerfile reads the instructions that our own file uses and refuses others.
func parseDockerfile(text string) ([]stage, error) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
	var stages []stage
	text = strings.ReplaceAll(text, "\\\n", " ")
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if !slices.Contains(known, name) || rest == "" {
			return nil, fmt.Errorf("instruction %d: %q is none that is known here", n+1, line)
		}
		if name == "FROM" {
			base, as, _ := strings.Cut(rest, " AS ")
			stages = append(stages, stage{base: base, name: as})
			continue
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("instruction %d: %q stands before the first FROM", n+1, line)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, instruction{name, rest})
	}
	return stages, nil
}

func TestImageIsBuiltStaticByTheModulesGo(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	if len(stages) != 2 || stages[0].name != "build" {
		t.Fatalf("stages %+v, want build and the image", stages)
	}
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)
	if version == nil {
		t.Fatal("go.mod names no Go version")
	}
	if want := "golang:" + string(version[1]) + "-"; !strings.HasPrefix(stages[0].base, want) {
		t.Errorf("built from %s, go.mod wants %s…", stages[0].base, want)
	}
	build := slices.DeleteFunc(stages[0].all("RUN"), func(c string) bool { return !strings.Contains(c, "go build") })
	if len(build) != 1 || !strings.HasPrefix(build[0], "CGO_ENABLED=0 go build ") {
		t.Fatalf("build commands %q, want one without cgo", build)
	}
	for _, pkg := range regexp.MustCompile(`\./\S+`).FindAllString(build[0], -1) {
		if _, err := os.Stat(filepath.Join("..", pkg, "main.go")); err != nil {
			t.Errorf("builds %s: %v", pkg, err)
		}
	}
}

func TestImageIsSmallAndNotRoot(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	image := stages[len(stages)-1]
	if image.base != "scratch" {
		t.Errorf("the image stands on %s", image.base)
	}
	user := image.all("USER")
	if len(user) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user[0]) {
		t.Errorf("USER %q, want one number that is not root (names need an /etc/passwd)", user)
	}
	if len(image.all("RUN")) > 0 {
		t.Error("RUN in an image without a shell")
	}
	var entry []string
	if e := image.all("ENTRYPOINT"); len(e) != 1 || json.Unmarshal([]byte(e[0]), &entry) != nil || len(entry) != 1 {
		t.Fatalf("ENTRYPOINT %q, want one program in exec form", e)
	}
	var copied []string
	for _, c := range image.all("COPY") {
		fields := strings.Fields(c)
		to := fields[len(fields)-1]
		for _, from := range fields[1 : len(fields)-1] {
			copied = append(copied, path.Join(to, path.Base(from)))
		}
	}
	for _, program := range []string{entry[0], "/usr/local/bin/enqueue"} {
		if !slices.Contains(copied, program) {
			t.Errorf("%s is not in the image: %q", program, copied)
		}
	}
}

func TestCopiedFilesExist(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	for n, s := range stages {
		for _, c := range s.all("COPY") {
			fields := strings.Fields(c)
			if from, ok := strings.CutPrefix(fields[0], "--from="); ok {
				if !slices.ContainsFunc(stages[:n], func(s stage) bool { return s.name == from }) {
					t.Errorf("COPY %s: no earlier stage %q", c, from)
				}
				continue
			}
			for _, source := range fields[:len(fields)-1] {
				if _, err := os.Stat(filepath.Join("..", source)); err != nil {
					t.Errorf("COPY %s: %v", c, err)
				}
			}
		}
	}
}

func TestParserRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"FORM scratch", "USER 1:1", "FROM scratch\nADD x y", "FROM scratch\nUSER"} {
		if _, err := parseDockerfile(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
