// Starts Swagger UI. Its own resolver reads the whole description for every operation that is opened, which takes
// seconds. Ours follows only the references of that operation, all of which are within the description.
function resolved(node, root, within = []) {
  if (Array.isArray(node)) return node.map((each) => resolved(each, root, within));
  if (node === null || typeof node !== "object") return node;
  const { $ref: reference, ...own } = node;
  // Where a schema contains itself, the reference is kept.
  if (within.includes(reference)) return node;
  const inside = reference ? [...within, reference] : within;
  const target = reference ? resolved(partAt(root, reference.slice(2).split("/")), root, inside) : {};
  const parts = Object.entries(own).map(([name, part]) => [name, resolved(part, root, within)]);
  return { ...target, ...Object.fromEntries(parts) };
}

function partAt(root, path) {
  return path.reduce((node, name) => node?.[name], root);
}

const resolveSubtree = async (root, path) => ({ spec: resolved(partAt(root, path), root), errors: [] });

SwaggerUIBundle({
  ...JSON.parse(document.getElementById("swagger-settings").textContent),
  dom_id: "#swagger-ui",
  plugins: [{ fn: { resolveSubtree } }],
});
