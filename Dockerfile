# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && npm prune --omit=dev
# ONNX Runtime brings its binaries for every platform; one is needed.
RUN node -e "const fs=require('node:fs'),os=require('node:os'),p='node_modules/onnxruntime-node/bin/napi-v6';for(const s of fs.readdirSync(p))if(s!==process.platform)fs.rmSync(p+'/'+s,{recursive:true});else for(const a of fs.readdirSync(p+'/'+s))if(a!==os.arch())fs.rmSync(p+'/'+s+'/'+a,{recursive:true})"

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
