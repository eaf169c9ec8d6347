package web

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

//go:embed templates/*.html
var templateFiles embed.FS

func parseTemplates() (*template.Template, error) {
	return template.ParseFS(templateFiles, "templates/*.html")
}

// words contains what every template needs: texts in the visitor's language, and addresses of static files. Every view
// model embeds it.
type words struct {
	*tongue
	static *assets
}

// T returns a text.
func (w words) T(key string, values ...any) string { return w.textOf(key, values...) }

// Lang returns the code of the language.
func (w words) Lang() string { return w.tag.String() }

// Asset returns the address of a static file.
func (w words) Asset(name string) string { return w.static.assetPath(name) }

// Icon returns a drawing from icons.svg. The name must be a constant of this program.
func (w words) Icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true"><use href="` + w.static.assetPath("icons.svg") + "#" +
		name +
		`"></use></svg>`)
}

// frame contains the header and footer of every page.
type frame struct {
	words
	Title, Brand, User, Version string
	// Live is the address of the stream that keeps the page current; "" for none.
	Live string
	// Restart is the command that serves the pages again; "" if the page shows none.
	Restart string
	// Pages are the pages in the visitor's menu. Here is the address of the current page.
	Pages []pageLink
	Here  string
	// Script of the page. Window is the CSS class of a page in its own window.
	Script, Window string
	// Documents reports that the page shows a document.
	Documents bool
	// Nonce for style elements that scripts create; "" if there are none.
	Nonce     string
	LogOut    bool
	Languages []languageChoice
}

type pageLink struct{ Href, Text string }

type languageChoice struct {
	Code, Name string
	Current    bool
}

// A visit is a request of a visitor.
type visit struct {
	words
	s   *Server
	ctx context.Context
	who access.Subject
}

func (s *Server) visitOf(r *http.Request) visit {
	return visit{words{s.tongueOf(r), s.static}, s, r.Context(), s.opts.Visitors.Of(r)}
}

// product is the name of this software in the head of pages.
const product = "vmop"

// Product returns the name of this software.
func (w words) Product() string { return product }

// newFrame returns the frame of a page with a title.
func (v visit) newFrame(title string) frame {
	f := frame{
		words: v.words, Title: title, Brand: v.s.opts.Title, User: v.who.User, Version: v.s.opts.Version,
		Script: "app.js", Restart: v.s.opts.Restart, LogOut: v.who.User != "" && !v.s.opts.OneUser,
	}
	if v.s.opts.Title != "" && v.s.opts.Title != title {
		f.Title += " – " + v.s.opts.Title
	}
	f.Title += " – " + product
	for _, p := range []struct {
		page       access.Page
		href, text string
	}{{access.PageVMs, "/", "list.title"}, {access.PagePortal, "/portal", "portal.title"}} {
		if v.mayUse(p.page) == nil && !(p.page == access.PagePortal && v.s.opts.OneUser) {
			f.Pages = append(f.Pages, pageLink{p.href, v.T(p.text)})
		}
	}
	if v.s.opts.Fleet.Storage() != nil && v.mayUse(access.PageVMs) == nil && v.mayCreate() == nil {
		f.Pages = append(f.Pages, pageLink{"/disks", v.T("disks.title")})
	}
	if v.mayUse(access.PageVMs) == nil && len(v.allowedPools(access.Edit)) > 0 {
		f.Pages = append(f.Pages, pageLink{"/pools", v.T("pools.title")})
	}
	for _, tag := range languages {
		f.Languages = append(f.Languages, languageChoice{tag.String(), display.Self.Name(tag), tag == v.tag})
	}
	return f
}

// whyRefused returns why the visitor lacks a permission for a VM; "" if the visitor has it.
func (v visit) whyRefused(verb access.Verb, vm *fleet.VM) string {
	if d := v.s.opts.Visitors.Decide(v.ctx, v.who, verb, vm); !d.Allowed {
		return v.reasonText(d)
	}
	return ""
}

// checkVerb returns an error if the visitor lacks a permission for a VM. For an invisible VM the error is the same as
// for a missing VM.
func (v visit) checkVerb(verb access.Verb, vm *fleet.VM) error {
	d := v.s.opts.Visitors.Decide(v.ctx, v.who, verb, vm)
	if d.Allowed {
		return nil
	}
	if verb == access.View || !v.s.opts.Visitors.Decide(v.ctx, v.who, access.View, vm).Allowed {
		return fleet.ErrNotFound
	}
	return forbidden{d}
}

// requestedVM returns the VM of a request, if the visitor has a permission for it.
func (v visit) requestedVM(r *http.Request, verb access.Verb) (*fleet.VM, error) {
	vm, err := v.s.opts.Fleet.Get(r.PathValue("vm"))
	if err != nil {
		return nil, err
	}
	return vm, v.checkVerb(verb, vm)
}

// visibleVMs returns the VMs that the visitor may see.
func (v visit) visibleVMs() []*fleet.VM {
	return v.s.opts.Fleet.Whole(v.visibleOf(v.s.opts.Fleet.Outline()))
}

// visibleOf returns the VMs in a list that the visitor may see.
func (v visit) visibleOf(all []*fleet.VM) []*fleet.VM {
	for i, vm := range all {
		if !v.canSee(vm) {
			rest := slices.DeleteFunc(slices.Clone(all[i:]), func(vm *fleet.VM) bool { return !v.canSee(vm) })
			return append(all[:i:i], rest...)
		}
	}
	return all
}

func (v visit) canSee(vm *fleet.VM) bool {
	return v.s.opts.Visitors.Decide(v.ctx, v.who, access.View, vm).Allowed
}

// reasonText returns the reason of a decision in the visitor's language.
func (t *tongue) reasonText(d access.Decision) string {
	if !t.hasText(d.Reason.Key) {
		return d.Reason.String()
	}
	var pairs []string
	for name, value := range d.Reason.Args {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(t.textOf(d.Reason.Key))
}

// executeTemplate renders a template with a view model.
func (s *Server) executeTemplate(name string, view any) ([]byte, error) {
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, name, view); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// showPage answers with a page.
func (s *Server) showPage(w http.ResponseWriter, code int, name string, view any) error {
	page, err := s.executeTemplate(name, view)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(page) // the browser may be gone
	return nil
}

// languageOf returns a language of the pages by its code.
func languageOf(code string) (language.Tag, bool) {
	i := slices.IndexFunc(languages, func(t language.Tag) bool { return t.String() == code })
	if i < 0 {
		return language.Und, false
	}
	return languages[i], true
}
