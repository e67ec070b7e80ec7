# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY tools/no-download ./tools/no-download
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY tools/pack ./tools/pack
COPY k8s/monitoring/rules.yaml ./k8s/monitoring/
RUN npm run build && npm prune --omit=dev && node tools/pack/slim-modules.ts node_modules

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/package.json ./
RUN mkdir -p /models /var/lib/sluice && chown node:node /models /var/lib/sluice
USER node
ENV SLUICE_REGISTRY=/models
EXPOSE 8443 9464
# The process is PID 1 and handles SIGTERM itself.
ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "dist/main.js"]
CMD ["serve", "--config", "/etc/sluice/sluice.yaml"]
