package site

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Page is a rendered document.
type Page struct {
	// Name is its path below docs/: "vm-types/tutorial.md".
	Name string
	// Href is its path in the site: "vm-types/tutorial.html". The Href of a README.md ends with index.html.
	Href  string
	Title string
	Body  template.HTML
	// Generated pages list the fields of a resource or the options of a program.
	Generated bool
	// Sections are the parts of the page, one for each heading. The first is the page's title.
	Sections []Section
}

// Section is the unit that a search finds.
type Section struct {
	// Anchor is the id of the heading.
	Anchor, Title string
	// Text is the plain text of the section.
	Text string
}

// hrefOf returns the path of a document in the site.
func hrefOf(name string) string {
	if path.Base(name) == "README.md" {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// renderPage renders a document. Links to other documents become links to their pages. Links to files of the project
// become links to the source.
func (s *Site) renderPage(files fs.FS, name string, data []byte) (*Page, error) {
	p := &Page{Name: name, Href: hrefOf(name), Title: name}
	leads := util.Prioritized(&links{site: s, page: name, files: files}, 1)
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(leads)))
	context := parser.NewContext(parser.WithIDs(ids{}))
	document := markdown.Parser().Parse(text.NewReader(data), parser.WithContext(context))
	p.divideSections(document, data)
	// Elements wider than the window must be scrollable with keys. Empty header cells become plain cells.
	usable := strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`,
		"<th></th>", "<td></td>")
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, data, document); err != nil {
		return nil, fmt.Errorf("render document %s: %w", name, err)
	}
	p.Body = template.HTML(usable.Replace(body.String())) // from project documents, and goldmark drops their HTML
	return p, nil
}

// divideSections sets the page's sections.
func (p *Page) divideSections(document ast.Node, source []byte) {
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		words := plainText(n, source)
		if h, is := n.(*ast.Heading); is {
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			p.Sections = append(p.Sections, Section{Anchor: string(anchor), Title: words})
			if h.Level == 1 {
				p.Title = words
			}
			continue
		}
		if last := len(p.Sections) - 1; last >= 0 {
			p.Sections[last].Text = strings.TrimSpace(p.Sections[last].Text + " " + words)
		}
	}
}

// plainText returns the text of a node without markup.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// ids creates the same ids for headings as GitHub, so that links work in both places.
type ids map[string]int

// Generate implements parser.IDs.
func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	count := i[id]
	i[id]++
	if count > 0 {
		id = fmt.Sprintf("%s-%d", id, count)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (i ids) Put(value []byte) { i[string(value)]++ }

// links changes the links of a document to links of its page.
type links struct {
	site  *Site
	page  string
	files fs.FS
}

// Transform implements parser.ASTTransformer.
func (l *links) Transform(document *ast.Document, _ text.Reader, _ parser.Context) {
	var gone []*ast.Link
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, is := n.(*ast.Link); is && entering {
			if to := l.siteLink(string(link.Destination)); to != "" {
				link.Destination = []byte(to)
			} else {
				gone = append(gone, link)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, link := range gone {
		parent := link.Parent()
		for link.FirstChild() != nil {
			parent.InsertBefore(parent, link, link.FirstChild())
		}
		parent.RemoveChild(parent, link)
	}
}

// siteLink returns the target of a link in the site, or "" if the site lacks the target.
func (l *links) siteLink(to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, anchor, found := strings.Cut(to, "#")
	if found {
		anchor = "#" + anchor
	}
	target := path.Join(path.Dir(l.page), file)
	if !fs.ValidPath(target) { // above docs/
		if l.site.Source == "" {
			return ""
		}
		return strings.TrimSuffix(l.site.Source, "/") + "/" + path.Join("docs", target) + anchor
	}
	if info, err := fs.Stat(l.files, target); err == nil && info.IsDir() {
		file, target = path.Join(file, "README.md"), path.Join(target, "README.md")
	}
	if path.Ext(target) != ".md" {
		return to
	}
	return path.Join(path.Dir(file), path.Base(hrefOf(target))) + anchor
}
