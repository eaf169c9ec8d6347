// Command write writes the documents as a static site that works without a server:
//
//	go run ./docs/site/write -o build/docs -version v1.0.0 -programs build/reference
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"vmop/deploy/crds"
	"vmop/docs"
	"vmop/docs/site"
)

//go:embed page.html
var pageTemplate string

//go:embed site.css
var siteStyle []byte

//go:embed search.js
var searchScript []byte

func main() {
	out := flag.String("o", "build/docs", "`folder` to write to")
	version := flag.String("version", "devel", "version of the programs")
	source := flag.String("source", "", "`URL` of the project's files; without, links to them are plain text")
	programs := flag.String("programs", "", "`folder` with the documents of programs: what \"PROGRAM man PROGRAM.md\" writes")
	flag.Parse()
	if err := writeSite(*out, *version, *source, *programs); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func writeSite(out, version, source, programs string) error {
	made, err := referencePages(programs)
	if err != nil {
		return err
	}
	s, err := site.Read(docs.Files(), made, source)
	if err != nil {
		return err
	}
	index, err := indexOf(s)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"site.css": siteStyle, "doc.css": site.Style(), "search.js": searchScript, "index.js": index,
	}
	frame, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}
	for _, p := range s.Pages() {
		var text bytes.Buffer
		if err := frame.Execute(&text, map[string]any{
			"Page": p, "Version": version, "Root": strings.Repeat("../", strings.Count(p.Href, "/")),
		}); err != nil {
			return fmt.Errorf("write the page of %s: %w", p.Name, err)
		}
		files[p.Href] = text.Bytes()
	}
	pictures, err := fs.Glob(docs.Files(), "pictures/*")
	if err != nil {
		return err
	}
	for _, name := range pictures {
		if files[name], err = fs.ReadFile(docs.Files(), name); err != nil {
			return err
		}
	}
	for name, text := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Join(out, filepath.FromSlash(path.Dir(name))), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// referencePages returns the documents of the resources and of the programs.
func referencePages(programs string) (map[string][]byte, error) {
	documents, err := site.Definitions(crds.Files())
	if err != nil || programs == "" {
		return documents, err
	}
	names, err := filepath.Glob(filepath.Join(programs, "*.md"))
	if err != nil {
		return nil, err
	}
	list := "\n## Programs\n\n"
	for _, file := range names {
		name := filepath.Base(file)
		if documents["reference/"+name], err = os.ReadFile(file); err != nil {
			return nil, err
		}
		list += fmt.Sprintf("- [%s](%s)\n", strings.TrimSuffix(name, ".md"), name)
	}
	documents[site.Reference] = append(documents[site.Reference], list...)
	return documents, nil
}

// indexOf returns the index for search.js: the pages with their sections.
func indexOf(s *site.Site) ([]byte, error) {
	var pages [][3]any
	for _, p := range s.Pages() {
		sections := [][3]string{}
		for _, section := range p.Sections {
			sections = append(sections, [3]string{section.Anchor, section.Title, section.Text})
		}
		pages = append(pages, [3]any{p.Href, p.Title, sections})
	}
	text, err := json.Marshal(pages)
	return append(append([]byte("window.vmopDocuments = "), text...), ";\n"...), err
}
