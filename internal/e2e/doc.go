// Package e2e tests the built gateway as users meet it: a process, real HTTP on loopback, the SDKs that people use, and
// tools that are real services. Only the model is scripted, but for TestRealModel, which has a build tag of its own:
// make real-model installs a small model and asks it.
//
//	go test -tags e2e ./internal/e2e/...
//
// The SDKs are installed by setup.sh into a cache folder; the tests run it where one is missing. With CI=true or
// TOOLGATE_E2E=require they fail instead, as a test run should install nothing there. The gateway is built with the race
// detector; TOOLGATE_E2E_BINARY names a binary to be tested in its place.
package e2e
