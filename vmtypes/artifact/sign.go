package artifact

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vmop/diskimage"
	"vmop/vmtypes/signature"
)

// Limits for the signatures of an artifact: their number, and the size of a signed text in bytes.
const (
	mostSignatures = 20
	mostPayload    = 16 << 10
)

// noSignatures is an image with no signature yet.
var noSignatures = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

// signatureTag returns the tag of the image with the signatures of an artifact. Its layers are the signed texts.
func signatureTag(of name.Digest) name.Tag {
	return of.Context().Tag(strings.Replace(of.DigestStr(), ":", "-", 1) + ".sig")
}

// signArtifact adds a signature to the signatures of an artifact.
func signArtifact(by *signature.Signer, of name.Digest, options []remote.Option) error {
	image, err := remote.Image(signatureTag(of), options...)
	if isMissing(err) {
		image, err = noSignatures, nil
	}
	if err == nil {
		image, err = withSignature(by, of, image)
	}
	if err != nil {
		return err
	}
	return remote.Write(signatureTag(of), image, options...)
}

// withSignature adds the signature of an artifact to an image with signatures.
func withSignature(by *signature.Signer, of name.Digest, image v1.Image) (v1.Image, error) {
	payload, err := signature.Payload(of.Context().Name(), of.DigestStr())
	if err != nil {
		return nil, err
	}
	signed, err := by.Sign(payload)
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:       static.NewLayer(payload, signature.PayloadType),
		Annotations: map[string]string{signature.SignatureKey: base64.StdEncoding.EncodeToString(signed)},
	})
}

// proveSigned adds to what was fetched the proof that one of the keys has signed its manifest.
func (f *Fetched) proveSigned(ctx context.Context, from *remote.Puller, of name.Repository, manifest []byte,
	keys []signature.Key,
) error {
	signatures, err := from.Get(ctx, signatureTag(of.Digest(f.Digest)))
	if isMissing(err) {
		return diskimage.Refuse(diskimage.SourceNotFound, "it is not signed: there is no signature for %s", f.Digest)
	}
	if err != nil {
		return err
	}
	var list v1.Manifest
	if err := json.Unmarshal(signatures.Manifest, &list); err != nil {
		return unfitError(fmt.Errorf("its signatures can't be read: %w", err))
	}
	if len(list.Layers) > mostSignatures {
		return unfitError(fmt.Errorf("it has %d signatures; the maximum is %d", len(list.Layers), mostSignatures))
	}
	refused := errors.New("it is not signed")
	for _, blob := range list.Layers {
		signed, err := base64.StdEncoding.DecodeString(blob.Annotations[signature.SignatureKey])
		if blob.MediaType != signature.PayloadType || blob.Size > mostPayload || err != nil {
			continue
		}
		payload, err := readPayload(ctx, from, of.Digest(blob.Digest.String()))
		if err != nil {
			return err
		}
		p := &signature.Proof{Manifest: string(manifest), Payload: payload, Signature: signed}
		if f.SignedBy, refused = p.Signer(keys); refused == nil {
			f.Proof = p
			return nil
		}
	}
	return unfitError(refused)
}

// readPayload reads a signed text.
func readPayload(ctx context.Context, from *remote.Puller, blob name.Digest) (string, error) {
	layer, err := from.Layer(ctx, blob)
	if err != nil {
		return "", err
	}
	data, err := layer.Compressed() // verifies the digest
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(data, mostPayload))
	return string(text), errors.Join(err, data.Close())
}

// isMissing reports whether a registry has answered that it lacks something.
func isMissing(err error) bool {
	answer, is := errors.AsType[*transport.Error](err)
	return is && answer.StatusCode == http.StatusNotFound
}
