// Package artifact stores VM types in container registries and reads them. A type with its modules, tests and
// samples is one OCI artifact:
//
//	{
//	  "mediaType": "application/vnd.oci.image.manifest.v1+json",
//	  "artifactType": "application/vnd.vmop.vmtype.v1",
//	  "config": {"mediaType": "application/vnd.oci.empty.v1+json", …},
//	  "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", …}],
//	  "annotations": {"org.opencontainers.image.title": "asset", …}
//	}
//
// The layer is an uncompressed tar archive. Its files are sorted and have no times or owners, so the same files
// always have the same digest, independent of the program that packed them. An artifact from a registry can
// contain anything. So the package limits everything that it reads, and it only accepts regular files with names
// that are valid in a type.
//
// See docs/decisions/0151-types-in-registries.md.
package artifact
