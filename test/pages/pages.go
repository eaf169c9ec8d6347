// Package pages extracts the commands and examples of documents, for the tests that check and run them.
//
// A block of commands is indented by four spaces or has the language sh. A block with the language console contains
// commands after "$ ", and their output. A block without a language has the same format, but is not run. Text that is
// not for a shell is in a fenced block with another language.
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

// Shell is the language of a block that contains only commands.
const Shell = "sh"

// Block is an example on a page.
type Block struct {
	// Name is the file in which readers save it, from a comment before it: <!-- file: first.star -->.
	Name string
	// Language is the word after the fence, or Shell for an indented block.
	Language string
	// Text consists of complete lines.
	Text string
	// Line is the number of the first line, from 1.
	Line int
	// Start and End are the offsets of the text in the page, unless it is indented.
	Start, End int
}

// Page is one document.
type Page struct {
	// File is its path relative to the project's folder.
	File   string
	Blocks []Block
	// Spans are the code spans of the text, as blocks without a language.
	Spans []Block
}

// All returns the user documents. root is the project's folder.
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

// ofDocstrings returns the pages that are generated from docstrings. Their indented blocks are Starlark.
func ofDocstrings() []string {
	return []string{"docs/vm-types/library.md", "docs/vm-types/reference.md"}
}

// Read parses a page.
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

// addBlock adds a block unless it is empty.
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

// lineOf returns the line number of an offset.
func lineOf(source []byte, at int) int { return 1 + bytes.Count(source[:at], []byte("\n")) }

// Call is a typed command of a transcript, and its output.
type Call struct{ Typed, Answer string }

// Calls returns the calls of a transcript. A typed line begins with "$ ", a continuation line with "> ".
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

// Command returns the command of a call without prompts.
func (c Call) Command() string {
	return strings.ReplaceAll(strings.TrimPrefix(c.Typed, "$ "), "\n> ", "\n")
}
