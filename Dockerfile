# intake-sync as a container: runs as the user "node", writes only to /tmp, and uses the Postgres that DATABASE_URL (or
# DATABASE_URL_FILE) names. The embedded Postgres is not included.

FROM node:24-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:24-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ENV NODE_ENV=production
WORKDIR /app
COPY package.json ./
COPY sql sql
COPY docs/openapi.yaml docs/errors.md docs/
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN ln -s /app/dist/cli.js /usr/local/bin/intake-sync
USER node
# Ports of `serve`: webhooks; health and metrics.
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# For `serve`, the command that keeps running. Disable it for a container that runs one command to its end.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.INTAKE_ADMIN_PORT || 9090}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["intake-sync"]
CMD ["--help"]
