// Command collector is the OpenTelemetry Collector's OTLP receiver over HTTP. Each batch of spans that it takes becomes a
// line of JSON on stdout, as the Collector itself writes OTLP/JSON, with the Authorization that came with it. It says on
// stderr where it listens, and ends at SIGTERM.
//
// It is a module of its own, since the Collector brings along what the gateway does not need.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// batch is what one request brought. The fields are those of batch in tracing_test.go.
type batch struct {
	Authorization []string        `json:"authorization"`
	Traces        json.RawMessage `json:"traces"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:4318", "where OTLP over HTTP is taken")
	flag.Parse()
	if err := run(*listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	sink, err := consumer.NewTraces(write)
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	server := config.Protocols.HTTP.GetOrInsertDefault()
	server.ServerConfig.NetAddr.Endpoint = listen
	server.ServerConfig.IncludeMetadata = true // else the consumer sees no header
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		return err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening", listen)
	<-ctx.Done()
	return receiver.Shutdown(context.WithoutCancel(ctx))
}

// write is asked for one batch after the other or for several at once; a line is one Write, which the kernel keeps whole.
func write(ctx context.Context, t ptrace.Traces) error {
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(t)
	if err != nil {
		return err
	}
	line, err := json.Marshal(batch{client.FromContext(ctx).Metadata.Get("Authorization"), text})
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
