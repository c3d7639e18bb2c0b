# Run once by the Postgres image, when the database is created: the login of everything that runs all the time. It writes
# the tables and owns nothing; `migrate` runs as the owner.
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  -v password="$(cat /run/secrets/loader_password)" <<'SQL'
create role intake_loader nologin;
create role intake_serve login password :'password' in role intake_loader;
SQL
