# Of a binary that is built already, bin/gateway-linux-ARCH: make image. It needs no other image.
FROM scratch
ARG TARGETARCH
COPY bin/gateway-linux-${TARGETARCH} /gateway
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/gateway"]
CMD ["serve", "-c", "/etc/gateway/gateway.yaml"]
