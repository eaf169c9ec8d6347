package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

//go:generate ../../tools/scripts/web-bundles

// staticFiles are the files for browsers: the style sheet, the icons, and the scripts that tools/scripts/web-bundles
// bundles from folder ts and its packages, with their licenses.
//
//go:embed static
var staticFiles embed.FS

// assets serves the static files. An address contains a hash of the content, so browsers may cache the file forever.
type assets struct {
	hashes  map[string]string // by file name
	handler http.Handler
}

func readAssets() (*assets, error) {
	files, err := fs.Sub(staticFiles, "static")
	if err != nil {
		return nil, err
	}
	a := &assets{hashes: map[string]string{}}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(data)
		a.hashes[name] = hex.EncodeToString(sum[:6])
		return err
	})
	a.handler = gzhttp.GzipHandler(http.FileServerFS(files))
	return a, err
}

// assetPath returns the address of a file.
func (a *assets) assetPath(name string) string { return "/static/" + a.hashes[name] + "/" + name }

// ServeHTTP serves /static/HASH/NAME. With an outdated hash, from a page of an earlier version, it serves the current
// file without caching.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hash, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/static/"), "/")
	if a.hashes[name] == "" {
		http.NotFound(w, r)
		return
	}
	if hash == a.hashes[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	r = r.Clone(r.Context())
	r.URL.Path = "/" + name
	a.handler.ServeHTTP(w, r)
}

// compressPages compresses pages. It doesn't compress streams, because their data must not be delayed, nor the JSON
// interface, which includes streams.
func compressPages(next http.Handler) http.Handler {
	pages := gzhttp.GzipHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" || strings.HasSuffix(r.URL.Path, "/stream") || isAPI(r) {
			next.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
