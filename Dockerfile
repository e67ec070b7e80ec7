# syntax=docker/dockerfile:1
# Two builds of the same sources give the same layers: docs/install.md says with which words.
# With its digest for builds that are deployed: docs/install.md, "Pinning the base image".
ARG NODE_IMAGE=node:24-bookworm-slim
FROM $NODE_IMAGE AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY tools/no-download ./tools/no-download
# What scripts would install is not needed: the Node of this image is the one that runs.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY tools/pack ./tools/pack
COPY tools/image ./tools/image
COPY k8s/monitoring/rules.yaml ./k8s/monitoring/
RUN npm run build && npm prune --omit=dev --ignore-scripts && node tools/image/assemble.ts /image

FROM $NODE_IMAGE
ENV NODE_ENV=production
WORKDIR /app
RUN mkdir -p /models /var/lib/sluice && chown node:node /models /var/lib/sluice
# The program, what it depends on for this platform, and sbom.cdx.json, which lists it.
COPY --from=build /image ./
USER node
ENV SLUICE_REGISTRY=/models
EXPOSE 8443 9464
# The service, or a pipeline with --metrics-port=9464; $SLUICE_HEALTH_URL where they listen elsewhere.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["node", "/app/healthcheck.js"]
# The process is PID 1 and handles SIGTERM itself.
ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "dist/main.js"]
CMD ["serve", "--config", "/etc/sluice/sluice.yaml"]
