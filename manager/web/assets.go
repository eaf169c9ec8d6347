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

// staticFiles are what browsers load: the style sheet, the icons, and the scripts that
// tools/scripts/web-bundles makes of folder ts and its packages, with their licences.
//
//go:embed static
var staticFiles embed.FS

// assets serves the static files. Their addresses have a part that changes with the content,
// so that browsers may keep them for ever.
type assets struct {
	hashes  map[string]string // of files, by name
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

// ServeHTTP serves /static/HASH/NAME. A name without the present hash is served as well, to a
// page that an earlier version has made, but not kept.
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

// compressPages compresses pages, but not streams: their bytes must not wait. The JSON interface has both.
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
