// Package pages reads what the documents have readers type, for the tests that check and run it.
//
// A block of commands is indented by four spaces or has the language sh. A block with the language console has
// commands, after "$ ", and what they print. So has one without a language, which nothing runs. What isn't for
// a shell is in a block between fences.
package pages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Shell is the language of a block with commands alone.
const Shell = "sh"

// A Block is an example of a page.
type Block struct {
	// Name is the file in which readers save it, by a comment before it: <!-- file: first.star -->.
	Name string
	// Language is what stands after the fence; Shell for an indented block.
	Language string
	// Text has whole lines.
	Text string
	// Line is the number of the first line, from 1.
	Line int
	// Start and End are where the text is in the page, if that isn't indented.
	Start, End int
}

// A Page is one document.
type Page struct {
	// File is its path from the project's folder.
	File   string
	Blocks []Block
	// Spans are codes in the text, as blocks without a language.
	Spans []Block
}

// All returns the documents for users. Root is the project's folder.
func All(root string) ([]Page, error) {
	var all []Page
	var faults []error
	for _, pattern := range []string{
		"README.md", "CONTRIBUTING.md", "examples/*/README.md", "docs/*.md", "docs/tutorials/*.md",
		"docs/tasks/*.md", "docs/reference/*.md", "docs/concepts/*.md", "docs/vm-types/*.md",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		faults = append(faults, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			faults = append(faults, err)
			name, err := filepath.Rel(root, file)
			faults = append(faults, err)
			if !slices.Contains(ofDocstrings(), name) {
				all = append(all, Read(name, source))
			}
		}
	}
	if len(all) == 0 {
		faults = append(faults, fmt.Errorf("there are no documents in %s", root))
	}
	return all, errors.Join(faults...)
}

// ofDocstrings returns the pages whose indented blocks are Starlark: they are made of docstrings.
func ofDocstrings() []string {
	return []string{"docs/vm-types/library.md", "docs/vm-types/reference.md"}
}

// Read reads a page.
func Read(file string, source []byte) Page {
	page := Page{File: file}
	tree := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	walk := func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.FencedCodeBlock:
			page.addBlock(string(node.Language(source)), node, source)
		case *ast.CodeBlock:
			page.addBlock(Shell, node, source)
		case *ast.CodeSpan:
			var b bytes.Buffer
			start := 0
			for child := node.FirstChild(); child != nil; child = child.NextSibling() {
				if part, ok := child.(*ast.Text); ok {
					b.Write(part.Segment.Value(source))
					start = part.Segment.Start
				}
			}
			page.Spans = append(page.Spans, Block{Text: b.String(), Line: lineOf(source, start)})
		}
		return ast.WalkContinue, nil
	}
	_ = ast.Walk(tree, walk) // walk returns no error
	return page
}

// addBlock adds a block, unless it is empty.
func (p *Page) addBlock(language string, node ast.Node, source []byte) {
	lines := node.Lines()
	if lines.Len() == 0 {
		return
	}
	b := Block{Language: language, Start: lines.At(0).Start, End: lines.At(lines.Len() - 1).Stop}
	b.Text, b.Line = string(lines.Value(source)), lineOf(source, b.Start)
	if before, ok := node.PreviousSibling().(*ast.HTMLBlock); ok {
		mark := regexp.MustCompile(`^<!-- file: (\S+) -->\n$`).FindSubmatch(before.Lines().Value(source))
		if mark != nil {
			b.Name = string(mark[1])
		}
	}
	p.Blocks = append(p.Blocks, b)
}

// lineOf returns the number of the line at an offset.
func lineOf(source []byte, at int) int { return 1 + bytes.Count(source[:at], []byte("\n")) }

// A Call is what a reader types of a transcript, and what is printed then.
type Call struct{ Typed, Answer string }

// Calls returns the calls of a transcript: a typed line begins with "$ ", and one that continues it with "> ".
func (b Block) Calls() []Call {
	var calls []Call
	for line := range strings.Lines(b.Text) {
		last := len(calls) - 1
		switch {
		case strings.HasPrefix(line, "$ "):
			calls = append(calls, Call{Typed: line})
		case last >= 0 && calls[last].Answer == "" && strings.HasPrefix(line, "> "):
			calls[last].Typed += line
		case last >= 0:
			calls[last].Answer += line
		}
	}
	return calls
}

// Command returns the command of a call, as a shell takes it.
func (c Call) Command() string {
	return strings.ReplaceAll(strings.TrimPrefix(c.Typed, "$ "), "\n> ", "\n")
}
