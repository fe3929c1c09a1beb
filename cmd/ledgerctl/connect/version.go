package connect

const Version = "0.1.0-dev"
