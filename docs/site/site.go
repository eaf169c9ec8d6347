// Package site converts the user documents to pages. The manager serves the pages at /help, and "make docs" writes them
// as files.
//
// The documents are Markdown that GitHub renders as well, and headings get the same ids in both places. goldmark
// renders the body of a page, and the caller adds the frame around it. HTML in a document is dropped. See
// docs/decisions/0153-site.md.
package site

import (
	"cmp"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Site contains all pages.
type Site struct {
	// Source is the address of the project's files, such as https://example.org/vmop/blob/v1.0.0/. Without it, links to
	// these files become plain text.
	Source string

	pages  map[string]*Page // by Href
	sorted []*Page
}

//go:embed doc.css
var style string

// Style returns the style sheet of the documents.
func Style() []byte { return []byte(style) }

// Index is the Href of the first page.
const Index = "index.html"

// Read reads all documents of a folder. It adds the generated documents, keyed by their paths in the folder.
func Read(files fs.FS, made map[string][]byte, source string) (*Site, error) {
	s := &Site{Source: source, pages: map[string]*Page{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("read document %s: %w", name, err)
		}
		return s.addPage(files, name, data)
	})
	if err != nil {
		return nil, err
	}
	for name, data := range made {
		if err := s.addPage(files, name, data); err != nil {
			return nil, err
		}
		s.pages[hrefOf(name)].Generated = true
	}
	slices.SortFunc(s.sorted, func(a, b *Page) int { return cmp.Compare(a.Name, b.Name) })
	return s, nil
}

func (s *Site) addPage(files fs.FS, name string, data []byte) error {
	p, err := s.renderPage(files, name, data)
	if err == nil {
		s.pages[p.Href] = p
		s.sorted = append(s.sorted, p)
	}
	return err
}

// Page returns the page with an Href, or nil.
func (s *Site) Page(href string) *Page { return s.pages[href] }

// Pages returns all pages, sorted by name.
func (s *Site) Pages() []*Page { return s.sorted }

// Hit is a section that a search has found.
type Hit struct {
	// Href is the address of the page, with the anchor of the section.
	Href, Page, Section string
	// Before, Match and After are an excerpt of the text around the first match.
	Before, Match, After string
	weight               int
}

const (
	mostHits  = 30
	mostWords = 8
	around    = 90 // bytes of text on each side of a match
)

// Search returns the sections that contain all words of a query in their text or titles, best match first, at most 30.
// Written pages come first, then generated pages, then decisions.
func (s *Site) Search(query string) []Hit {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), mostWords)]
	if len(words) == 0 {
		return nil
	}
	var hits []Hit
	for _, p := range s.sorted {
		for _, section := range p.Sections {
			if h, is := p.findWords(section, words); is {
				hits = append(hits, h)
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.weight, a.weight) })
	return hits[:min(len(hits), mostHits)]
}

func (p *Page) findWords(s Section, words []string) (Hit, bool) {
	h := Hit{Href: p.Href, Page: p.Title, Section: s.Title}
	if s.Anchor != "" {
		h.Href += "#" + s.Anchor
	}
	page, title, text := strings.ToLower(p.Title), strings.ToLower(s.Title), strings.ToLower(s.Text)
	for _, word := range words {
		weight := 8*strings.Count(page, word) + 8*strings.Count(title, word) + min(strings.Count(text, word), 5)
		if weight == 0 {
			return h, false
		}
		h.weight += weight
	}
	switch {
	case path.Dir(p.Name) == "decisions":
		h.weight -= 100
	case p.Generated:
		h.weight -= 50
	}
	h.citeText(s.Text, text, words)
	return h, true
}

// citeText sets the excerpt around the first match of one of the words; lower is the text in lower case.
func (h *Hit) citeText(text, lower string, words []string) {
	at, length := 0, 0
	for _, word := range words {
		if i := strings.Index(lower, word); i >= 0 {
			at, length = i, len(word)
			break
		}
	}
	if len(lower) != len(text) { // a letter has another length in lower case
		text = lower
	}
	begin, end := max(at-around, 0), min(at+length+around, len(text))
	if i := strings.IndexByte(text[begin:at], ' '); begin > 0 && i >= 0 {
		begin += i + 1
	}
	if i := strings.LastIndexByte(text[at+length:end], ' '); end < len(text) && i >= 0 {
		end = at + length + i
	}
	h.Before = strings.ToValidUTF8(text[begin:at], "")
	h.Match, h.After = text[at:at+length], strings.ToValidUTF8(text[at+length:end], "")
}
