// Package site makes pages of the documents: those that the manager serves at /help, and those that "make docs" writes.
//
// The documents are Markdown as GitHub shows it, and remain readable there: headings get the same ids. A page is what
// goldmark renders, in a frame of whoever shows it; HTML in a document is left out. See docs/decisions/0153-site.md.
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

// Site has all pages.
type Site struct {
	// Source is the address of the project's files, such as https://example.org/vmop/blob/v1.0.0/; without it links to
	// them are plain text.
	Source string

	pages  map[string]*Page // by Href
	sorted []*Page
}

//go:embed doc.css
var style string

// Style returns the style sheet of documents.
func Style() []byte { return []byte(style) }

// Index is the Href of the first page.
const Index = "index.html"

// Read reads all documents of a folder, and those that were made, which have the paths of files in it.
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

// Page returns a page by its Href; nil if there is none.
func (s *Site) Page(href string) *Page { return s.pages[href] }

// Pages returns all, sorted by their names.
func (s *Site) Pages() []*Page { return s.sorted }

// A Hit is a section that a search has found.
type Hit struct {
	// Href is that of the page, with the anchor of the section.
	Href, Page, Section string
	// Before, Match and After are a part of the text, around the first word that was looked for.
	Before, Match, After string
	weight               int
}

const (
	mostHits  = 30
	mostWords = 8
	around    = 90 // bytes of the text on each side of a word
)

// Search returns the sections that have all words of a query, in their text or titles, the best first, 30 at most.
// Pages for people come first, then generated pages, then decisions.
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

// citeText takes the part of a text in which the first of the words is; lower is the text in lower case.
func (h *Hit) citeText(text, lower string, words []string) {
	at, length := 0, 0
	for _, word := range words {
		if i := strings.Index(lower, word); i >= 0 {
			at, length = i, len(word)
			break
		}
	}
	if len(lower) != len(text) { // a letter whose lower case has another length
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
