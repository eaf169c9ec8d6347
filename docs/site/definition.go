package site

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// definition contains the shown parts of a CustomResourceDefinition of apiextensions.k8s.io/v1.
type definition struct {
	Spec struct {
		Group string
		Names struct {
			Kind, Plural string
			ShortNames   []string `json:"shortNames"`
		}
		Scope    string
		Versions []struct {
			Name   string
			Schema struct {
				Root schema `json:"openAPIV3Schema"`
			}
		}
	}
}

// schema contains the shown parts of a field's OpenAPI schema.
type schema struct {
	Description, Type, Format string
	Default                   any
	Enum                      []string
	Minimum, Maximum          *float64
	MaxItems                  *int `json:"maxItems"`
	MaxLength                 *int `json:"maxLength"`
	Properties                map[string]*schema
	Items                     *schema
	Additional                *schema `json:"additionalProperties"`
	Required                  []string
	IntOrString               bool                       `json:"x-kubernetes-int-or-string"`
	Rules                     []struct{ Message string } `json:"x-kubernetes-validations"`
}

// Reference is the document that lists the resources' documents.
const Reference = "reference/README.md"

// Definitions returns a document for each resource that the *.yaml files define (CustomResourceDefinitions), and
// Reference, which lists these documents.
func Definitions(files fs.FS) (map[string][]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	documents, rows := map[string][]byte{}, map[string]string{} // the rows of the list, by kind
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read definition %s: %w", name, err)
		}
		var d definition
		if err := yaml.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("read definition %s: %w", name, err)
		}
		if len(d.Spec.Versions) == 0 {
			return nil, fmt.Errorf("read definition %s: it has no version", name)
		}
		kind := d.Spec.Names.Kind
		document := path.Join("reference", strings.ToLower(kind)+".md")
		documents[document] = []byte(d.documentName())
		first := firstSentence(d.Spec.Versions[0].Schema.Root.descriptionText())
		rows[kind] = fmt.Sprintf("| [%s](%s) | %s |\n", kind, path.Base(document), first)
	}
	list := ""
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		list += rows[kind]
	}
	documents[Reference] = []byte("# Resources\n\nEach field of each resource, as the API server knows it: " +
		"`kubectl explain` has the same texts.\n\n| | |\n|---|---|\n" + list)
	return documents, nil
}

func (d *definition) documentName() string {
	var b strings.Builder
	names, version := d.Spec.Names, d.Spec.Versions[0]
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", names.Kind, version.Schema.Root.descriptionText())
	for i, name := range append([]string{names.Plural}, names.ShortNames...) {
		b.WriteString([]string{"`kubectl get ", "`, or `"}[min(i, 1)] + name)
	}
	fmt.Fprintf(&b, "`; `apiVersion: %s/%s`; %s.\n", d.Spec.Group, version.Name,
		map[string]string{"Namespaced": "in a namespace", "Cluster": "of the cluster"}[d.Spec.Scope])
	for _, part := range []string{"spec", "status"} {
		if s := version.Schema.Root.Properties[part]; s != nil {
			s.writeSection(&b, part, 2)
		}
	}
	return b.String()
}

// large is the number of fields from which an object within spec or status is described in a separate section.
const large = 8

// writeSection writes a heading and the fields of an object or a list of objects. Sections for large objects follow.
func (s *schema) writeSection(b *strings.Builder, where string, level int) {
	fmt.Fprintf(b, "\n%s %s\n\n%s\n\n| Field | Type | |\n|---|---|---|\n", strings.Repeat("#", level), where,
		s.descriptionText())
	var behind []func()
	var rows func(of *schema, below string)
	rows = func(of *schema, below string) {
		of, below = of.innerSchema(below)
		for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
			field, at := of.Properties[name], below+name
			required := ""
			if slices.Contains(of.Required, name) {
				required = "Required. "
			}
			whole := where + "." + at
			if level < 5 && field.countFields() >= large {
				fmt.Fprintf(b, "| [`%s`](#%s) | %s | %s%s |\n", at, ids{}.Generate([]byte(whole), 0), field.typeName(),
					required, firstSentence(field.descriptionText()))
				behind = append(behind, func() { field.writeSection(b, whole, level+1) })
				continue
			}
			shown := strings.ReplaceAll(at, "|", `\|`)
			fmt.Fprintf(b, "| `%s` | %s | %s%s |\n", shown, field.typeName(), required, field.meaningText())
			rows(field, at+".")
		}
	}
	rows(s, "")
	for _, write := range behind {
		write()
	}
}

// innerSchema returns the schema with the fields of an object, of a list's items, or of a map's values. It also returns
// the suffix for the field's name.
func (s *schema) innerSchema(below string) (*schema, string) {
	for {
		mark := ""
		switch {
		case s.Items != nil:
			s, mark = s.Items, "[]."
		case s.Additional != nil:
			s, mark = s.Additional, ".*."
		default:
			return s, below
		}
		if below != "" {
			below = strings.TrimSuffix(below, ".") + mark
		}
	}
}

// countFields returns the number of fields in the schema.
func (s *schema) countFields() int {
	s, _ = s.innerSchema("")
	n := 0
	for _, field := range s.Properties {
		n += 1 + field.countFields()
	}
	return n
}

// typeName returns the type of a field for display.
func (s *schema) typeName() string {
	switch {
	case s.Items != nil:
		return "list of " + s.Items.typeName()
	case s.Additional != nil:
		return "map to " + s.Additional.typeName()
	case s.IntOrString:
		return "integer or string"
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Format != "":
		return s.Type + " (" + s.Format + ")"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// meaningText returns a field's description, and the bounds that the description does not contain.
func (s *schema) meaningText() string {
	text := []string{s.descriptionText()}
	switch s.Default.(type) {
	case string, bool, float64:
		if !strings.Contains(text[0], "Default: ") {
			text = append(text, fmt.Sprintf("Default: `%v`.", s.Default))
		}
	}
	if s.Minimum != nil {
		text = append(text, fmt.Sprintf("At least %g.", *s.Minimum))
	}
	if s.Maximum != nil {
		text = append(text, fmt.Sprintf("At most %g.", *s.Maximum))
	}
	if s.MaxLength != nil {
		text = append(text, fmt.Sprintf("At most %d characters.", *s.MaxLength))
	}
	if s.MaxItems != nil {
		text = append(text, fmt.Sprintf("At most %d of them.", *s.MaxItems))
	}
	for _, rule := range s.Rules {
		if rule.Message != "" {
			text = append(text, "Rule: "+escapeMarkdown(rule.Message)+".")
		}
	}
	return strings.TrimSpace(strings.Join(text, " "))
}

// descriptionText returns the description in one line.
func (s *schema) descriptionText() string {
	return escapeMarkdown(strings.Join(strings.Fields(s.Description), " "))
}

// firstSentence returns the text up to the first period that a capital letter follows.
func firstSentence(text string) string {
	for i := range len(text) - 2 {
		if text[i] == '.' && text[i+1] == ' ' && text[i+2] >= 'A' && text[i+2] <= 'Z' {
			return text[:i+1]
		}
	}
	return text
}

// escapeMarkdown escapes a text for Markdown, including tables.
func escapeMarkdown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("|<*_[`\\", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
