package artifact_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/vmtypes"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

// asset returns a type with all kinds of files.
func asset() *artifact.Content {
	return &artifact.Content{
		Name: "asset", Description: "the PC with a tag.", APIVersion: 1,
		Files: map[string]string{
			"asset.star": "load(\"parts.star\", \"tag\")\n", "parts.star": "tag = 1\n", "asset_test.star": "x = 1\n",
			"asset.txtar": "", "testdata/small.yaml": "\"/Runner\": {}\n",
		},
		Annotations: map[string]string{"org.opencontainers.image.licenses": "MIT"},
	}
}

// serve starts a registry and returns its address; wrap may be nil.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestATypeComesBackAsItWas(t *testing.T) {
	t.Parallel()
	reference := serve(t, nil) + "/types/asset"
	pushed, err := artifact.Registry{}.Push(t.Context(), reference+":1", asset())
	require.NoError(t, err)
	require.Regexp(t, "^"+reference+"@sha256:[0-9a-f]{64}$", pushed)
	for _, from := range []string{pushed, reference + ":1"} {
		got, err := artifact.Registry{}.Fetch(t.Context(), from)
		require.NoError(t, err)
		require.Equal(t, *asset(), got.Content)
		require.Equal(t, pushed, reference+"@"+got.Digest)
	}
	require.Equal(t, map[string]string{"asset.star": asset().Files["asset.star"], "parts.star": "tag = 1\n"},
		asset().Modules())
	again, err := artifact.Registry{}.Push(t.Context(), reference+":2", asset())
	require.NoError(t, err)
	require.Equal(t, pushed, again)
	other := asset()
	other.Files["parts.star"] = "tag = 2\n"
	again, err = artifact.Registry{}.Push(t.Context(), reference+":2", other)
	require.NoError(t, err)
	require.NotEqual(t, pushed, again)
	_, err = artifact.Registry{}.Push(t.Context(), pushed, other)
	require.ErrorContains(t, err, "push it with a tag")
}

// newSigner returns a new private key.
func newSigner(t *testing.T) *signature.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	signer, err := signature.ReadSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	return signer
}

// A reader with keys only accepts what one of their owners has signed.
func TestSignedTypes(t *testing.T) {
	t.Parallel()
	reference := serve(t, nil) + "/types/asset"
	ours, theirs := newSigner(t), newSigner(t)
	verifies := artifact.Registry{Keys: []signature.Key{ours.Key()}}
	_, err := artifact.Registry{}.Push(t.Context(), reference+":1", asset())
	require.NoError(t, err)
	_, err = verifies.Fetch(t.Context(), reference+":1")
	require.ErrorContains(t, err, "it is not signed: there is no signature for sha256:")
	_, err = artifact.Registry{Signer: theirs}.Push(t.Context(), reference+":1", asset())
	require.NoError(t, err)
	_, err = verifies.Fetch(t.Context(), reference+":1")
	require.ErrorContains(t, err, "it is not signed with a trusted key")
	pushed, err := artifact.Registry{Signer: ours}.Push(t.Context(), reference+":1", asset())
	require.NoError(t, err)
	for _, key := range []signature.Key{ours.Key(), theirs.Key()} { // the second signature has not replaced the first
		got, err := artifact.Registry{Keys: []signature.Key{key}}.Fetch(t.Context(), reference+":1")
		require.NoError(t, err)
		require.Equal(t, pushed, reference+"@"+got.Digest)
		require.Equal(t, key, got.SignedBy)
		require.NoError(t, got.Proof.Covers("asset", got.Modules()))
	}

	// A signature does not become one of another type by its tag.
	other := asset()
	other.Files["parts.star"] = "tag = 2\n"
	evil, err := artifact.Registry{}.Push(t.Context(), reference+":2", other)
	require.NoError(t, err)
	tagOf := func(pushed string) name.Tag {
		of, err := name.NewDigest(pushed)
		require.NoError(t, err)
		return of.Context().Tag(strings.Replace(of.DigestStr(), ":", "-", 1) + ".sig")
	}
	signatures, err := remote.Image(tagOf(pushed))
	require.NoError(t, err)
	require.NoError(t, remote.Write(tagOf(evil), signatures))
	_, err = verifies.Fetch(t.Context(), reference+":2")
	require.ErrorContains(t, err, "its signature is for something else")
}

// A range of versions selects the newest tag, and may not reach further than its registry.
func TestRangesOfVersions(t *testing.T) {
	t.Parallel()
	reference := serve(t, nil) + "/types/asset"
	digests := map[string]string{}
	for _, tag := range []string{"1.0.0", "1.2.0", "1.10.0", "2.0.0", "latest"} {
		c := asset()
		c.Files["parts.star"] = "tag = \"" + tag + "\"\n"
		var err error
		digests[tag], err = artifact.Registry{}.Push(t.Context(), reference+":"+tag, c)
		require.NoError(t, err)
	}
	for within, want := range map[string]string{"^1.0": "1.10.0", "~1.2": "1.2.0", ">=1": "2.0.0"} {
		got, err := artifact.Registry{}.Fetch(t.Context(), reference+":"+within)
		require.NoError(t, err)
		require.Equal(t, want, got.Tag)
		require.Equal(t, digests[want], reference+"@"+got.Digest)
		pinned, err := artifact.Pinned(reference+":"+within, got.Digest)
		require.NoError(t, err)
		require.Equal(t, digests[want], pinned)
	}
	_, err := artifact.Registry{}.Fetch(t.Context(), reference+":^3")
	require.ErrorContains(t, err, "the range ^3 contains no tag; the repository has 4 versions")
	require.Equal(t, diskimage.SourceNotFound, diskimage.ReasonOf(err))
	require.ErrorContains(t, artifact.CheckReference(reference+":^3"), "needs a tag, such as 1.2.0, not a range")
	_, err = artifact.Registry{}.Fetch(t.Context(), reference+":^three")
	require.ErrorContains(t, err, "\"^three\" is not a range of versions")
	require.Equal(t, diskimage.InvalidSource, diskimage.ReasonOf(err), "no registry was contacted")

	endless := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</v2/types/asset/tags/list?last=x>; rel=\"next\"")
			_ = json.NewEncoder(w).Encode(map[string]any{"tags": make([]string, 1000)})
		})
	}) + "/types/asset:^1"
	_, err = artifact.Registry{}.Fetch(t.Context(), endless)
	require.ErrorContains(t, err, "more than 10000 tags")
}

// The digest of the same content never changes, because other users have stored it.
func TestTheDigestStays(t *testing.T) {
	t.Parallel()
	image, err := asset().Image()
	require.NoError(t, err)
	text, err := image.RawManifest()
	require.NoError(t, err)
	var manifest map[string]any
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Equal(t, artifact.Type, manifest["artifactType"])
	require.Equal(t, "application/vnd.oci.empty.v1+json", manifest["config"].(map[string]any)["mediaType"])
	require.Equal(t, map[string]any{
		"org.opencontainers.image.title": "asset", "org.opencontainers.image.description": "the PC with a tag.",
		"org.opencontainers.image.licenses": "MIT", "org.jdrupes.vmop.vmtype.api-version": "1",
		"org.jdrupes.vmop.vmtype.modules": "46ad694ad0d69791885e13dfa2e03a3838d03de213bd54494b6f5d4113783ce2  asset.star\n" +
			"c256eda2744ae4c89820cd5925a5ab8586378bcff82715f0e367bb036323a432  parts.star\n",
	}, manifest["annotations"])
	digest, err := image.Digest()
	require.NoError(t, err)
	require.Equal(t, "sha256:146c0868642731bf18b936ae0db4441da288e7e3c19bd07accf7be5540ad7b42", digest.String())
}

func TestContentThatIsRefused(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*artifact.Content){
		"there is no module other.star":               func(c *artifact.Content) { c.Name = "other" },
		"the name of a stock type":                    func(c *artifact.Content) { c.Name = "standard" },
		"version of the language is 0":                func(c *artifact.Content) { c.APIVersion = 0 },
		`"../x.star": files must be next to the type`: func(c *artifact.Content) { c.Files["../x.star"] = "" },
		`"x.sh": must be a module`:                    func(c *artifact.Content) { c.Files["x.sh"] = "" },
		"x.star has 262145 bytes": func(c *artifact.Content) {
			c.Files["x.star"] = strings.Repeat("#", vmtypes.MaxModule+1)
		},
		"not text in UTF-8": func(c *artifact.Content) { c.Files["x.star"] = "\xff" },
		"the maximum is 200 files": func(c *artifact.Content) {
			for i := range artifact.MaxFiles {
				c.Files["x"+strings.Repeat("y", i%90)+string(rune('a'+i/90))+".yaml"] = ""
			}
		},
	} {
		c := asset()
		change(c)
		_, err := c.Image()
		require.ErrorContains(t, err, text)
	}
}

func TestARegistryWithAPasswordAndACertificate(t *testing.T) {
	t.Parallel()
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "https://") + "/types/asset:1"
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r := artifact.Registry{Keychain: keys{"me", "secret"}, CABundle: bundle}
	_, err := r.Push(t.Context(), reference, asset())
	require.NoError(t, err)
	_, err = r.Fetch(t.Context(), reference)
	require.NoError(t, err)

	_, err = artifact.Registry{Keychain: keys{"me", "secret"}}.Fetch(t.Context(), reference)
	require.Equal(t, diskimage.CertificateInvalid, diskimage.ReasonOf(err), "%v", err)
	for _, keychain := range []authn.Keychain{nil, keys{"me", "wrong-secret"}} {
		r.Keychain = keychain
		_, err = r.Fetch(t.Context(), reference)
		require.Equal(t, diskimage.SourceUnauthorized, diskimage.ReasonOf(err), "%v", err)
		require.NotContains(t, err.Error(), "secret")
		_, err = r.Push(t.Context(), reference, asset())
		require.Equal(t, diskimage.SourceUnauthorized, diskimage.ReasonOf(err), "%v", err)
	}
}

// keys contains a user with a password.
type keys struct{ user, password string }

func (k keys) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: k.user, Password: k.password}, nil
}

// Other artifacts, and manifests with false information, are rejected.
func TestArtifactsThatAreRefused(t *testing.T) {
	t.Parallel()
	manifest := func(change func(m map[string]any)) string {
		image, err := asset().Image()
		require.NoError(t, err)
		text, err := image.RawManifest()
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(text, &m))
		change(m)
		text, err = json.Marshal(m)
		require.NoError(t, err)
		return string(text)
	}
	layer := func(m map[string]any) map[string]any { return m["layers"].([]any)[0].(map[string]any) }
	for text, body := range map[string]string{
		"artifactType is \"\"":    manifest(func(m map[string]any) { delete(m, "artifactType") }),
		"artifactType is \"other": manifest(func(m map[string]any) { m["artifactType"] = "other/x" }),
		"must have one layer":     manifest(func(m map[string]any) { m["layers"] = []any{} }),
		"one layer, of type":      manifest(func(m map[string]any) { layer(m)["mediaType"] = "application/x" }),
		"bytes; the maximum is":   manifest(func(m map[string]any) { layer(m)["size"] = 1 << 40 }),
		"its layer has -1 bytes":  manifest(func(m map[string]any) { layer(m)["size"] = -1 }),
		"bytes that the manifest": manifest(func(m map[string]any) { layer(m)["size"] = 7 }),
		"this program knows":      manifest(annotated("org.jdrupes.vmop.vmtype.api-version", "99")),
		"must be a number, not":   manifest(annotated("org.jdrupes.vmop.vmtype.api-version", "x")),
		"no module other.star":    manifest(annotated("org.opencontainers.image.title", "other")),
		"read the layer": manifest(func(m map[string]any) {
			config := maps.Clone(m["config"].(map[string]any))
			config["mediaType"] = "application/vnd.oci.image.layer.v1.tar"
			m["layers"] = []any{config}
		}),
		"manifest can't be read": `[]`,
		"answers 404": manifest(func(m map[string]any) {
			layer(m)["digest"] = "sha256:" + strings.Repeat("1", 64)
		}),
		"a VM type: its media type": manifest(func(m map[string]any) {
			m["mediaType"] = "application/vnd.oci.image.index.v1+json"
		}),
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			reference := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/1") {
						w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
						_, _ = io.WriteString(w, body)
						return
					}
					h.ServeHTTP(w, r)
				})
			}) + "/types/asset:1"
			_, err := artifact.Registry{}.Push(t.Context(), reference, asset())
			require.NoError(t, err)
			_, err = artifact.Registry{}.Fetch(t.Context(), reference)
			require.ErrorContains(t, err, text)
			require.ErrorContains(t, err, "VM type "+reference)
		})
	}
}

func annotated(key, value string) func(map[string]any) {
	return func(m map[string]any) { m["annotations"].(map[string]any)[key] = value }
}

// Container images and indexes are not types.
func TestImagesAreRefused(t *testing.T) {
	t.Parallel()
	ref, err := name.ParseReference(serve(t, nil) + "/images/x:1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, empty.Image))
	_, err = artifact.Registry{}.Fetch(t.Context(), ref.String())
	require.ErrorContains(t, err, "not a VM type")
	require.NoError(t, remote.WriteIndex(ref, empty.Index))
	_, err = artifact.Registry{}.Fetch(t.Context(), ref.String())
	require.ErrorContains(t, err, "not a VM type")
}

// Registries are rejected that send too much, no data or wrong bytes, or that redirect to other addresses.
func TestRegistriesThatAreRefused(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		for block := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		at     string
		answer http.HandlerFunc
		reason diskimage.Reason
	}{
		"endless ping":     {"/v2/", endless, ""}, // the body is ignored
		"endless manifest": {"/manifests/", endless, diskimage.TransferTooLarge},
		"endless layer":    {"/blobs/", endless, diskimage.TransferTooLarge},
		"silent ping":      {"/v2/", silent, diskimage.TimedOut},
		"silent manifest":  {"/manifests/", silent, diskimage.TimedOut},
		"silent layer":     {"/blobs/", silent, diskimage.TimedOut},
		"another layer":    {"/blobs/", text("other bytes"), diskimage.ChecksumMismatch},
		"no manifest":      {"/manifests/", http.NotFound, diskimage.SourceNotFound},
		"no registry":      {"/v2/", status(http.StatusBadGateway), diskimage.SourceUnreachable},
		"out of order":     {"/manifests/", status(http.StatusBadGateway), diskimage.SourceUnreachable},
		"a redirect by http": {
			"/manifests/", http.RedirectHandler("http://registry.invalid/x", http.StatusFound).ServeHTTP,
			diskimage.SourceRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := false
			reference := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if bad && strings.Contains(r.URL.Path, c.at) && (c.at != "/v2/" || r.URL.Path == c.at) {
						c.answer(w, r)
						return
					}
					h.ServeHTTP(w, r)
				})
			}) + "/types/asset:1"
			_, err := artifact.Registry{}.Push(t.Context(), reference, asset())
			require.NoError(t, err)
			bad = true
			r := artifact.Registry{Patience: time.Minute}
			if c.reason == diskimage.TimedOut {
				r.Patience = 300 * time.Millisecond
			}
			_, err = r.Fetch(t.Context(), reference)
			require.Equal(t, c.reason, diskimage.ReasonOf(err), "%v", err)
		})
	}
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// A call ends when its context is canceled.
func TestACallIsCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	reference := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
	}) + "/types/asset:1"
	_, err := artifact.Registry{}.Fetch(ctx, reference)
	require.ErrorIs(t, err, context.Canceled)
}

func TestReferencesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{"", "UPPER CASE", "registry.example.org/x@sha256:12", "http://registry/x"} {
		_, err := artifact.Registry{}.Fetch(t.Context(), reference)
		require.Equal(t, diskimage.InvalidSource, diskimage.ReasonOf(err), "%v", err)
	}
}
