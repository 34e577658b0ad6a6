package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/app"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect/local"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// command is what is released: a main package, by its folder.
const command = "cmd/gateway"

// sbom is the bill of materials of all binaries, as CycloneDX JSON: every module that is linked into one of them, with its
// licence as far as it is recognized, and what depends on what. A module that is not in all of them names the platforms.
func (r release) sbom() ([]byte, error) {
	all := union{components: map[string]cyclonedx.Component{}, platforms: map[string][]string{}, uses: map[string][]string{}}
	licences := &remembered{detector: local.NewDetector(zerolog.Nop()), seen: map[string][]cyclonedx.License{}}
	for _, p := range r.platforms {
		// The generator asks the go command, which takes the platform from the environment.
		for key, value := range map[string]string{"GOOS": p.system, "GOARCH": p.arch, "CGO_ENABLED": "0"} {
			if err := os.Setenv(key, value); err != nil {
				return nil, err
			}
		}
		g, err := app.NewGenerator(r.root, app.WithLogger(zerolog.Nop()), app.WithMainDir(command), app.WithIncludeStdlib(true), app.WithShortPURLS(true), app.WithLicenseDetector(licences))
		if err != nil {
			return nil, err
		}
		bom, err := g.Generate()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all.add(bom, p)
	}
	own := r.component()
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(own.PackageURL+" "+r.commit)).URN()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &own,
		Tools:     &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{generator()}},
	}
	all.fill(bom, len(r.platforms))
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return out.Bytes(), err
}

// generator is what finds the modules, as a component of the bill.
func generator() cyclonedx.Component {
	c := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: "github.com/CycloneDX/cyclonedx-gomod"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == c.Name {
				c.Version = dep.Version
			}
		}
	}
	return c
}

// module is the main module.
const module = "github.com/toolgate/toolgate"

// component is what the bill is of. The generator would name it by what git knows, which is no version before a tag is set.
func (r release) component() cyclonedx.Component {
	purl := "pkg:golang/" + module + "@" + r.version + "#" + command
	return cyclonedx.Component{
		BOMRef:             purl,
		Type:               cyclonedx.ComponentTypeApplication,
		Name:               module,
		Version:            r.version,
		PackageURL:         purl,
		Licenses:           &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		ExternalReferences: &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeVCS, URL: "https://" + module}},
		Properties:         &[]cyclonedx.Property{{Name: "toolgate:commit", Value: r.commit}},
	}
}

// union collects the bills of the platforms. Its keys are references of components, but for self, which is no name of any.
type union struct {
	components map[string]cyclonedx.Component
	platforms  map[string][]string // of each component, in order
	uses       map[string][]string // what depends on what, unsorted, with repeats
}

const self = ""

func (u union) add(bom *cyclonedx.BOM, p platform) {
	for _, c := range *bom.Components {
		u.components[c.BOMRef] = c
		u.platforms[c.BOMRef] = append(u.platforms[c.BOMRef], p.String())
	}
	for _, d := range *bom.Dependencies {
		ref := d.Ref
		if ref == bom.Metadata.Component.BOMRef {
			ref = self
		}
		on := u.uses[ref]
		if d.Dependencies != nil {
			on = append(on, *d.Dependencies...)
		}
		u.uses[ref] = on // of none too: a component that is not listed would be one of which nothing is known
	}
}

// fill puts the union of the bills of n platforms into one, sorted.
func (u union) fill(bom *cyclonedx.BOM, n int) {
	components := make([]cyclonedx.Component, 0, len(u.components))
	for _, ref := range slices.Sorted(maps.Keys(u.components)) {
		c := u.components[ref]
		if in := u.platforms[ref]; len(in) < n {
			c.Properties = &[]cyclonedx.Property{{Name: "toolgate:platforms", Value: strings.Join(in, " ")}}
		}
		components = append(components, c)
	}
	dependencies := make([]cyclonedx.Dependency, 0, len(u.uses))
	for _, ref := range slices.Sorted(maps.Keys(u.uses)) {
		d := cyclonedx.Dependency{Ref: ref}
		if ref == self {
			d.Ref = bom.Metadata.Component.BOMRef
		}
		if on := slices.Compact(slices.Sorted(slices.Values(u.uses[ref]))); len(on) > 0 {
			d.Dependencies = &on
		}
		dependencies = append(dependencies, d)
	}
	bom.Components, bom.Dependencies = &components, &dependencies
}

// remembered asks for a module's licences once, though it is in the bill of each platform: it takes the longest of all.
type remembered struct {
	detector licensedetect.Detector
	seen     map[string][]cyclonedx.License
}

// Detect implements licensedetect.Detector.
func (r *remembered) Detect(path, version, dir string) ([]cyclonedx.License, error) {
	key := path + "@" + version
	if list, ok := r.seen[key]; ok {
		return list, nil
	}
	list, err := r.detector.Detect(path, version, dir)
	if err == nil {
		r.seen[key] = list
	}
	return list, err
}
