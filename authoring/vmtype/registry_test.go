package vmtype_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// serveRegistry starts a registry and sets $REGISTRY to its address. It uses HTTP. With the argument tls, it uses
// HTTPS, with a certificate from the authority ca.pem, for the user me with the password secret.
func serveRegistry(ts *testscript.TestScript, _ bool, args []string) {
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if len(args) == 0 {
		server.Start()
	} else {
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			handler.ServeHTTP(w, r)
		})
		server.StartTLS()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca, 0o600))
	}
	ts.Defer(server.Close)
	_, address, _ := strings.Cut(server.URL, "//")
	ts.Setenv("REGISTRY", address)
}
