package main

import "github.com/openai/openai-go/v3"

func main() { _ = openai.NewClient() }
