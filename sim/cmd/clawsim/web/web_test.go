package web

import (
	"bytes"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
)

func manifest(t *testing.T) (m Manifest) {
	t.Helper()
	b, err := Dist.ReadFile("dist/manifest.json")
	if err == nil {
		err = json.Unmarshal(b, &m, json.RejectUnknownMembers(true))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What is served is what the sources beside it say, built and committed together.
func TestDistBelongsToSources(t *testing.T) {
	now, err := SourceHash(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(t)
	if m.Sources != now {
		t.Errorf("dist was made from sources %.12s, here are %.12s: run make web and commit dist", m.Sources, now)
	}
	err = fs.WalkDir(Dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "dist/manifest.json" {
			return err
		}
		sum, err := Hash(Dist, name)
		if short := name[len("dist/"):]; m.Files[short] != sum {
			t.Errorf("%s is not the file that make web wrote", short)
		} else {
			delete(m.Files, short)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range m.Files {
		t.Errorf("dist/%s is missing", name)
	}
}

// The licences of what was bundled travel with it.
func TestDistKeepsLicences(t *testing.T) {
	b, err := Dist.ReadFile("dist/LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"three 0.", "Copyright © 2010-2026 three.js authors", "mediabunny 1.", "Mozilla Public License"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("LICENSES.txt lacks %q", want)
		}
	}
}

func TestHashSeesNamesAndContents(t *testing.T) {
	hash := func(files map[string]string) string {
		dir := fstest.MapFS{}
		for name, text := range files {
			dir[name] = &fstest.MapFile{Data: []byte(text)}
		}
		h, err := Hash(dir, "src")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	seen := map[string]int{}
	for i, files := range []map[string]string{
		{"src/a": "1", "src/b": "2"}, {"src/a": "1", "src/b": "3"}, {"src/a": "1", "src/c": "2"}, {"src/a": "1"}, {"src/a": "1src/b 1\n2"},
	} {
		h := hash(files)
		if other, ok := seen[h]; ok {
			t.Errorf("files %d and %d have one hash", i, other)
		}
		seen[h] = i
	}
	if _, err := Hash(fstest.MapFS{}, "src"); err == nil {
		t.Error("a missing folder has a hash")
	}
}
