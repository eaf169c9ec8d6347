package web

import (
	"io/fs"
	"net/http"
	"path"

	"vmop/deploy/crds"
	"vmop/docs"
	"vmop/docs/site"
)

// readDocuments renders the documents. That takes some tenths of a second, so it happens at the first request.
func readDocuments() (*site.Site, error) {
	resources, err := site.Definitions(crds.Files())
	if err != nil {
		return nil, err
	}
	return site.Read(docs.Files(), resources, "")
}

func (s *Server) helpRoutes() map[string]pageFunc {
	return map[string]pageFunc{
		"GET /help/{page...}": s.getHelp, "GET /help/doc.css": s.getHelpStyle,
		"GET /help": func(w http.ResponseWriter, r *http.Request) error {
			http.Redirect(w, r, "/help/"+site.Index, http.StatusFound)
			return nil
		},
	}
}

// helpView is a document, or the search results for Query.
type helpView struct {
	frame
	Query string
	Hits  []site.Hit
	Page  *site.Page
}

// pictureTypes maps extensions of pictures to their media types.
var pictureTypes = map[string]string{".png": "image/png", ".svg": "image/svg+xml"}

// getHelp shows a document of this version, one of its pictures, or search results.
func (s *Server) getHelp(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("page")
	kind := pictureTypes[path.Ext(name)]
	if picture, err := fs.ReadFile(docs.Files(), name); err == nil && kind != "" {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(picture) // the browser may be gone
		return nil
	}
	documents, err := s.documents()
	if err != nil {
		return err
	}
	v := s.visitOf(r)
	view := helpView{frame: v.newFrame(v.T("help.title")), Query: r.URL.Query().Get("q")}
	if name == "search" {
		view.Hits = documents.Search(view.Query)
	} else if view.Page = documents.Page(name); view.Page == nil {
		return errNoPage
	}
	view.Here, view.Documents = "/help/"+site.Index, true
	if view.Page != nil {
		view.Title = view.Page.Title + " – " + view.Title
	}
	return s.showPage(w, http.StatusOK, "help", view)
}

// getHelpStyle serves the style sheet for documents.
func (s *Server) getHelpStyle(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(site.Style()) // see above
	return nil
}
