package main

import "github.com/spf13/cobra"

func mockCommand() *cobra.Command { return &cobra.Command{Use: "mock"} }
func demoCommand() *cobra.Command { return &cobra.Command{Use: "demo"} }
